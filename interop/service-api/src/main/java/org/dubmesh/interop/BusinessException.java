package org.dubmesh.interop;

/** A declared exception with a field of its own. */
public class BusinessException extends Exception {
    private static final long serialVersionUID = 1L;

    private int code;

    public BusinessException() {}

    public BusinessException(String message, int code) {
        super(message);
        this.code = code;
    }

    public int getCode() {
        return code;
    }

    public void setCode(int code) {
        this.code = code;
    }
}
