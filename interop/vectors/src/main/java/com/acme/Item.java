package com.acme;

import java.io.Serializable;
import java.util.Objects;

public class Item implements Serializable {
    String sku;
    int count;

    Item() {}

    Item(String sku, int count) {
        this.sku = sku;
        this.count = count;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Item && ((Item) other).sku.equals(sku) && ((Item) other).count == count;
    }

    @Override
    public String toString() {
        return sku + "*" + count;
    }

    @Override
    public int hashCode() {
        return Objects.hash(sku, count);
    }
}
