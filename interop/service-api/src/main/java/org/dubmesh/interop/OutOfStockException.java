package org.dubmesh.interop;

/** An unchecked exception of the services' own, with an object in it, and a cause. */
public class OutOfStockException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private Address warehouse;

    public OutOfStockException() {}

    public OutOfStockException(String message, Address warehouse, Throwable cause) {
        super(message, cause);
        this.warehouse = warehouse;
    }

    public Address getWarehouse() {
        return warehouse;
    }

    public void setWarehouse(Address warehouse) {
        this.warehouse = warehouse;
    }
}
