package org.dubmesh.interop;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.Date;
import java.util.List;

/** An object whose fields are what a caller without classes cannot tell: decimal, dates, enum, objects. */
public class Item implements Serializable {
    private static final long serialVersionUID = 1L;

    private String code;
    private BigDecimal price;
    private Date made;
    private LocalDate day;
    private Level level;
    private List<Item> parts;

    public String getCode() {
        return code;
    }

    public void setCode(String code) {
        this.code = code;
    }

    public BigDecimal getPrice() {
        return price;
    }

    public void setPrice(BigDecimal price) {
        this.price = price;
    }

    public Date getMade() {
        return made;
    }

    public void setMade(Date made) {
        this.made = made;
    }

    public LocalDate getDay() {
        return day;
    }

    public void setDay(LocalDate day) {
        this.day = day;
    }

    public Level getLevel() {
        return level;
    }

    public void setLevel(Level level) {
        this.level = level;
    }

    public List<Item> getParts() {
        return parts;
    }

    public void setParts(List<Item> parts) {
        this.parts = parts;
    }

    /** A class cast fails here if a field holds what it is not declared as. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(getClass().getSimpleName()).append('{').append(code);
        if (price != null) {
            text.append(" price ").append(price.toPlainString());
        }
        if (made != null) {
            text.append(" made ").append(made.getTime());
        }
        if (day != null) {
            text.append(" day ").append(day.getYear()).append('-').append(day.getDayOfYear());
        }
        if (level != null) {
            text.append(" rank ").append(level.rank());
        }
        if (parts != null) {
            for (Item part : parts) {
                text.append(' ').append(part);
            }
        }
        return text.append('}').toString();
    }
}
