package com.acme;

/** An exception with fields of its own. */
public class ShopException extends RuntimeException {
    int code;
    Item item;

    ShopException(String message, Throwable cause, int code, Item item) {
        super(message, cause);
        this.code = code;
        this.item = item;
    }
}
