package org.dubmesh.interop.peer;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;

/** The command line: pairs of {@code --name value}. An unknown name is refused. */
final class Options {
    private final Map<String, String> values = new LinkedHashMap<>();

    /** Takes {@code defaults} (name, value, name, value, ...), then lays {@code args} over them. */
    Options(String[] args, String... defaults) {
        for (int i = 0; i < defaults.length; i += 2) {
            values.put(defaults[i], defaults[i + 1]);
        }
        for (int i = 0; i < args.length; i += 2) {
            if (!values.containsKey(args[i]) || i + 1 == args.length) {
                throw new IllegalArgumentException("bad option " + args[i] + "; options, each with one value: "
                        + String.join(" ", new TreeSet<>(values.keySet())));
            }
            values.put(args[i], args[i + 1]);
        }
    }

    String text(String name) {
        return values.get(name);
    }

    boolean isSet(String name) {
        return !values.get(name).equals("none");
    }

    int number(String name) {
        try {
            return Integer.parseInt(text(name));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " must be a number, not " + text(name));
        }
    }
}
