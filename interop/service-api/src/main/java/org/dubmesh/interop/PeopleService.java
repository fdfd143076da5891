package org.dubmesh.interop;

import java.util.List;
import java.util.Map;

/** What a caller without classes finds hard: overloads, subclasses, nested classes, any number of arguments. */
public interface PeopleService {
    String greet();

    String greet(String name);

    String greet(Person person);

    String greet(Address address);

    String greet(List<Person> people);

    String greet(String greeting, Person person);

    /** Joins the parts by a dash. */
    String join(String... parts);

    Map<String, Person> directory(Map<String, Person> people);

    /** The name of the person's class, and what only an {@link Employee} has. */
    String kind(Person person);

    /** The lead's name, and the year of {@code since}. */
    String lead(Team.Lead lead);

    String fail(Person person) throws BusinessException;
}
