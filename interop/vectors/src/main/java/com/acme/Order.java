package com.acme;

import java.io.Serializable;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** An object with a field of most kinds. */
public class Order implements Serializable {
    int id;
    long total;
    short small;
    byte tiny;
    char letter;
    boolean paid;
    double price;
    float weight;
    String name;
    Date at;
    BigDecimal amount;
    Color color;
    byte[] raw;
    List<Item> items;
    Map<String, Object> extra;
    Order next;

    private Object[] all() {
        return new Object[] {
            id, total, small, tiny, letter, paid, price, weight, name, at, amount, color,
            Arrays.hashCode(raw), items, extra, next
        };
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Order && Arrays.equals(all(), ((Order) other).all());
    }

    @Override
    public String toString() {
        return Arrays.toString(all());
    }

    @Override
    public int hashCode() {
        return Objects.hash(all());
    }
}
