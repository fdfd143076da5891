package org.dubmesh.interop;

import java.io.Serializable;
import java.math.BigDecimal;
import java.util.List;

/** A record: nobody can set its fields after it was made. */
public record Size(int width, String unit, BigDecimal weight, List<Item> items) implements Serializable {
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Size{").append(width).append(unit).append(' ').append(weight);
        if (items != null) {
            for (Item item : items) {
                text.append(' ').append(item);
            }
        }
        return text.append('}').toString();
    }
}
