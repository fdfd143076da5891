package org.dubmesh.interop;

import java.util.List;
import java.util.Map;

/** What JSON alone cannot say: subclasses, values of Object, records, classes of any type. */
public interface ShopService {
    /** Each of these answers with what Java saw. */
    String put(Item item);

    String putAll(List<Item> items);

    String putArray(Item[] items);

    String shelves(Map<String, List<Item>> shelves);

    String level(Level level);

    String any(Object value);

    String anyOf(List<Object> values);

    String size(Size size);

    String page(Page<Item> page);

    Page<Item> samePage(Page<Item> page);

    List<Item> same(List<Item> items);
}
