package org.dubmesh.interop.peer;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;

/**
 * The command line: pairs of {@code --name value}, and flags, which are {@code false} without their
 * {@code --name}. An unknown name is refused.
 */
final class Options {
    private final Map<String, String> values = new LinkedHashMap<>();

    /** Takes {@code defaults} (name, value, name, value, ...), then lays {@code args} over them. */
    Options(String[] args, String... defaults) {
        for (int i = 0; i < defaults.length; i += 2) {
            values.put(defaults[i], defaults[i + 1]);
        }
        for (int i = 0; i < args.length; i++) {
            String name = args[i];
            if ("false".equals(values.get(name))) {
                values.put(name, "true");
            } else if (values.containsKey(name) && i + 1 < args.length) {
                values.put(name, args[++i]);
            } else {
                throw new IllegalArgumentException("bad option " + name + "; options, with one value unless a flag: "
                        + String.join(" ", new TreeSet<>(values.keySet())));
            }
        }
    }

    String text(String name) {
        return values.get(name);
    }

    /** Whether an option whose default is {@code none} has a value, or a flag is given. */
    boolean isSet(String name) {
        return !values.get(name).equals("none") && !values.get(name).equals("false");
    }

    /** The value, or null for {@code none}. */
    String textOrNull(String name) {
        return isSet(name) ? text(name) : null;
    }

    int number(String name) {
        try {
            return Integer.parseInt(text(name));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " must be a number, not " + text(name));
        }
    }
}
