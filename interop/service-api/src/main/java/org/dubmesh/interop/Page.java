package org.dubmesh.interop;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/** A class of any type. */
public class Page<T> implements Serializable {
    private static final long serialVersionUID = 1L;

    private int number;
    private List<T> items;
    private Map<String, T> byName;
    private Page<T> next;

    public int getNumber() {
        return number;
    }

    public void setNumber(int number) {
        this.number = number;
    }

    public List<T> getItems() {
        return items;
    }

    public void setItems(List<T> items) {
        this.items = items;
    }

    public Map<String, T> getByName() {
        return byName;
    }

    public void setByName(Map<String, T> byName) {
        this.byName = byName;
    }

    public Page<T> getNext() {
        return next;
    }

    public void setNext(Page<T> next) {
        this.next = next;
    }
}
