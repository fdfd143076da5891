package org.dubmesh.interop;

import java.util.Objects;

/** A subclass with a field of its own. */
public class OfficeAddress extends Address {
    private static final long serialVersionUID = 1L;

    private String company;

    public OfficeAddress() {}

    public OfficeAddress(String company, String street, String city, int zip) {
        super(street, city, zip);
        this.company = company;
    }

    public String getCompany() {
        return company;
    }

    public void setCompany(String company) {
        this.company = company;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof OfficeAddress that && super.equals(that) && Objects.equals(company, that.company);
    }

    @Override
    public int hashCode() {
        return Objects.hash(super.hashCode(), company);
    }

    @Override
    public String toString() {
        return company + ", " + super.toString();
    }
}
