package org.dubmesh.interop;

/** A subclass that no method names. */
public class Employee extends Person {
    private static final long serialVersionUID = 1L;

    private String company;

    public String getCompany() {
        return company;
    }

    public void setCompany(String company) {
        this.company = company;
    }
}
