package org.dubmesh.interop;

import java.io.Serializable;
import java.util.Date;

/** Holds a class inside of a class. */
public final class Team {
    private Team() {}

    /** Named {@code Team$Lead} by the JVM. */
    public static class Lead implements Serializable {
        private static final long serialVersionUID = 1L;

        private String name;
        private Date since;

        public String getName() {
            return name;
        }

        public void setName(String name) {
            this.name = name;
        }

        public Date getSince() {
            return since;
        }

        public void setSince(Date since) {
            this.since = since;
        }
    }
}
