package org.dubmesh.interop.peer;

import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import org.dubmesh.interop.Address;
import org.dubmesh.interop.BusinessException;
import org.dubmesh.interop.Employee;
import org.dubmesh.interop.PeopleService;
import org.dubmesh.interop.Person;
import org.dubmesh.interop.Team;

/** Answers with what shows which method was called, and with what. */
final class PeopleServiceImpl implements PeopleService {
    @Override
    public String greet() {
        return "nobody";
    }

    @Override
    public String greet(String name) {
        return "name " + name;
    }

    @Override
    public String greet(Person person) {
        return "person " + person.getName();
    }

    @Override
    public String greet(Address address) {
        return "address " + address.getCity();
    }

    @Override
    public String greet(List<Person> people) {
        return people.size() + " people, first " + people.get(0).getName();
    }

    @Override
    public String greet(String greeting, Person person) {
        return greeting + " " + person.getName();
    }

    @Override
    public String join(String... parts) {
        return String.join("-", parts);
    }

    @Override
    public Map<String, Person> directory(Map<String, Person> people) {
        // A class cast would fail here if they were not what they are declared as.
        for (Person person : people.values()) {
            person.setAge(person.getAge() + 1);
        }
        return people;
    }

    @Override
    public String kind(Person person) {
        String company = person instanceof Employee ? " of " + ((Employee) person).getCompany() : "";
        return person.getClass().getSimpleName() + company;
    }

    @Override
    public String lead(Team.Lead lead) {
        return lead.getName() + " since " + lead.getSince().toInstant().atOffset(ZoneOffset.UTC).getYear();
    }

    @Override
    public String fail(Person person) throws BusinessException {
        throw new BusinessException("no luck for " + person.getName(), 42);
    }
}
