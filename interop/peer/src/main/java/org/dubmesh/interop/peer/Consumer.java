package org.dubmesh.interop.peer;

/** Calls a provider by its address. */
final class Consumer {
    private Consumer() {}

    static int run(Options options) {
        return 0;
    }
}
