package org.dubmesh.interop;

import java.io.Serializable;
import java.math.BigDecimal;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** An object with a field of most kinds: nested object, list of objects, enum, map, date, boxed. */
public class Person implements Serializable {
    private static final long serialVersionUID = 1L;

    private String name;
    private int age;
    private Long id;
    private boolean active;
    private double score;
    private BigDecimal balance;
    private Date born;
    private Color color;
    private Address address;
    private List<Person> friends;
    private Map<String, Integer> counts;

    public Person() {}

    public Person(String name, int age) {
        this.name = name;
        this.age = age;
    }

    public String getName() {
        return name;
    }

    public void setName(String name) {
        this.name = name;
    }

    public int getAge() {
        return age;
    }

    public void setAge(int age) {
        this.age = age;
    }

    public Long getId() {
        return id;
    }

    public void setId(Long id) {
        this.id = id;
    }

    public boolean isActive() {
        return active;
    }

    public void setActive(boolean active) {
        this.active = active;
    }

    public double getScore() {
        return score;
    }

    public void setScore(double score) {
        this.score = score;
    }

    public BigDecimal getBalance() {
        return balance;
    }

    public void setBalance(BigDecimal balance) {
        this.balance = balance;
    }

    public Date getBorn() {
        return born;
    }

    public void setBorn(Date born) {
        this.born = born;
    }

    public Color getColor() {
        return color;
    }

    public void setColor(Color color) {
        this.color = color;
    }

    public Address getAddress() {
        return address;
    }

    public void setAddress(Address address) {
        this.address = address;
    }

    public List<Person> getFriends() {
        return friends;
    }

    public void setFriends(List<Person> friends) {
        this.friends = friends;
    }

    public Map<String, Integer> getCounts() {
        return counts;
    }

    public void setCounts(Map<String, Integer> counts) {
        this.counts = counts;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Person that
                && age == that.age
                && active == that.active
                && Double.compare(score, that.score) == 0
                && Objects.equals(name, that.name)
                && Objects.equals(id, that.id)
                && Objects.equals(balance, that.balance)
                && Objects.equals(born, that.born)
                && color == that.color
                && Objects.equals(address, that.address)
                && Objects.equals(friends, that.friends)
                && Objects.equals(counts, that.counts);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, age, id);
    }

    @Override
    public String toString() {
        return "Person{" + name + ", " + age + ", id " + id + ", " + color + ", " + address
                + ", friends " + friends + ", counts " + counts + "}";
    }
}
