package com.acme;

import java.io.Serializable;

/** A class whose subclass has a field of the same name. */
class Ticket implements Serializable {
    private final int id;
    private final String name;

    Ticket(int id, String name) {
        this.id = id;
        this.name = name;
    }

    /** Both fields go into the message. */
    static final class Child extends Ticket {
        private final String name;
        private final int level;

        Child(int id, String superName, String name, int level) {
            super(id, superName);
            this.name = name;
            this.level = level;
        }
    }

    /** An exception that has a message of its own beside that of all exceptions. */
    static final class Refused extends RuntimeException {
        private final int code;
        private final String message;

        Refused(String superMessage, int code, String message) {
            super(superMessage);
            this.code = code;
            this.message = message;
            // The programs of the serializations have their own.
            setStackTrace(new StackTraceElement[0]);
        }
    }
}
