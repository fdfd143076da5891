package com.acme;

/** An enum, one of whose constants has a body and so a class of its own. */
public enum Color {
    RED,
    GREEN {
        @Override
        public String toString() {
            return "the colour of grass";
        }
    }
}
