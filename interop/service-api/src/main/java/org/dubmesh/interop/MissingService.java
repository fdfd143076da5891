package org.dubmesh.interop;

/** A service that no provider here publishes. */
public interface MissingService {
    String text(String value);
}
