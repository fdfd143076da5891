package org.dubmesh.interop;

/** An enum whose constants have bodies: each of them is an object of a class of its own. */
public enum Level {
    LOW {
        @Override
        public int rank() {
            return 1;
        }
    },
    HIGH {
        @Override
        public int rank() {
            return 9;
        }
    };

    public abstract int rank();
}
