package org.dubmesh.interop.peer;

import java.util.Arrays;
import java.util.Collection;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.dubmesh.interop.Item;
import org.dubmesh.interop.Level;
import org.dubmesh.interop.Page;
import org.dubmesh.interop.ShopService;
import org.dubmesh.interop.Size;

/** Answers with what shows of which classes the arguments are. */
final class ShopServiceImpl implements ShopService {
    @Override
    public String put(Item item) {
        return String.valueOf(item);
    }

    @Override
    public String putAll(List<Item> items) {
        StringBuilder text = new StringBuilder();
        for (Item item : items) {
            text.append(item).append(';');
        }
        return text.toString();
    }

    @Override
    public String putArray(Item[] items) {
        return putAll(Arrays.asList(items));
    }

    @Override
    public String shelves(Map<String, List<Item>> shelves) {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, List<Item>> shelf : new TreeMap<>(shelves).entrySet()) {
            text.append(shelf.getKey()).append('=').append(putAll(shelf.getValue()));
        }
        return text.toString();
    }

    @Override
    public String level(Level level) {
        return level.name() + level.rank();
    }

    @Override
    public String any(Object value) {
        if (value == null) {
            return "null";
        }
        String name = value.getClass().getSimpleName();
        if (value instanceof Map) {
            StringBuilder text = new StringBuilder("map{");
            for (Map.Entry<?, ?> entry : new TreeMap<Object, Object>((Map<?, ?>) value).entrySet()) {
                text.append(entry.getKey()).append('=').append(any(entry.getValue())).append(' ');
            }
            return text.append('}').toString();
        }
        if (value instanceof Collection) {
            StringBuilder text = new StringBuilder(value instanceof List ? "list[" : "set[");
            for (Object element : (Collection<?>) value) {
                text.append(any(element)).append(' ');
            }
            return text.append(']').toString();
        }
        if (value instanceof Object[]) {
            return name + any(Arrays.asList((Object[]) value));
        }
        if (value instanceof Date) {
            return name + " " + ((Date) value).getTime();
        }
        return value instanceof Item || value instanceof Size ? value.toString() : name + " " + value;
    }

    @Override
    public String anyOf(List<Object> values) {
        return any(values);
    }

    @Override
    public String size(Size size) {
        return String.valueOf(size);
    }

    @Override
    public String page(Page<Item> page) {
        StringBuilder text = new StringBuilder("page ").append(page.getNumber());
        if (page.getItems() != null) {
            text.append(' ').append(putAll(page.getItems()));
        }
        if (page.getByName() != null) {
            for (Map.Entry<String, Item> entry : new TreeMap<>(page.getByName()).entrySet()) {
                text.append(' ').append(entry.getKey()).append('=').append(entry.getValue());
            }
        }
        if (page.getNext() != null) {
            text.append(' ').append(page(page.getNext()));
        }
        return text.toString();
    }

    @Override
    public Page<Item> samePage(Page<Item> page) {
        return page;
    }

    @Override
    public List<Item> same(List<Item> items) {
        return items;
    }
}
