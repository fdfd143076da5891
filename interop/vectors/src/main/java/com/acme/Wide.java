package com.acme;

import java.io.Serializable;
import java.util.Arrays;

/** An object with a field of each kind of array, and of each box. */
public class Wide implements Serializable {
    byte[] bytes = {1, -1};
    short[] shorts = {-300, 300};
    char[] chars = {'a', '\u4e2d'};
    int[] ints = {7};
    long[] longs = {1L << 40};
    float[] floats = {99.8f};
    double[] doubles = {0.5};
    boolean[] booleans = {true};
    String[] strings = {"s", null};
    Byte aByte = 5;
    Short aShort = -6;
    Character character = '\u00e9';
    Integer integer = 8;
    Long aLong = 9L;
    Float aFloat = 99.8f;
    Double aDouble = 1e300;
    Boolean aBoolean = false;
    Color[] colors = {Color.GREEN};
    Item[][] items = {{new Item("a", 1)}, {}};

    private Object[] all() {
        return new Object[] {
            bytes, shorts, chars, ints, longs, floats, doubles, booleans, strings, aByte, aShort, character,
            integer, aLong, aFloat, aDouble, aBoolean, colors, items
        };
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Wide && Arrays.deepEquals(all(), ((Wide) other).all());
    }

    @Override
    public String toString() {
        return Arrays.deepToString(all());
    }

    @Override
    public int hashCode() {
        return Arrays.deepHashCode(all());
    }
}
