package org.dubmesh.interop.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.dubmesh.interop.BusinessException;
import org.dubmesh.interop.Person;
import org.dubmesh.interop.UserService;

/** What the apps of interop/apps do, in Java. */
final class UserServiceImpl implements UserService {
    private final TreeMap<Long, Person> users = new TreeMap<>();

    UserServiceImpl() {
        for (String name : List.of("Ann", "Ben", "Cleo")) {
            add(new Person(name, 20));
        }
    }

    private Person add(Person user) {
        user.setId(users.isEmpty() ? 1 : users.lastKey() + 1);
        users.put(user.getId(), user);
        return user;
    }

    @Override
    public synchronized Person find(long id) {
        return users.get(id);
    }

    @Override
    public synchronized List<Person> list(String name, int limit) {
        List<Person> found = new ArrayList<>();
        for (Person user : users.values()) {
            if (found.size() < limit && user.getName().startsWith(name)) {
                found.add(user);
            }
        }
        return found;
    }

    @Override
    public synchronized Person save(Person user) throws BusinessException {
        if (user.getName() == null || user.getName().isEmpty()) {
            throw new BusinessException("a user needs a name", 422);
        }
        return add(user);
    }

    @Override
    public synchronized Person replace(long id, Person user) {
        user.setId(id);
        users.put(id, user);
        return user;
    }

    @Override
    public synchronized boolean remove(long id) {
        return users.remove(id) != null;
    }

    @Override
    public String status(int status) {
        if (status >= 400) {
            throw new IllegalStateException("status " + status);
        }
        return "status " + status;
    }
}
