package com.acme;

import java.io.Serializable;

/** An object that can contain itself. */
public class Node implements Serializable {
    String label;
    Object next;
}
