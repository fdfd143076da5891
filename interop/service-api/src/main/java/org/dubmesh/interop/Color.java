package org.dubmesh.interop;

public enum Color {
    RED,
    GREEN,
    BLUE
}
