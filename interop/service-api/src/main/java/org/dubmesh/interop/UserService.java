package org.dubmesh.interop;

import java.util.List;

/**
 * A service as a web app would have it: each method has a path of its own in interop/apps, and the
 * Java providers publish it as well. There are users 1, 2 and 3 to begin with.
 */
public interface UserService {
    /** {@code GET /users/{id}}. A Java provider returns null for an unknown id, an app answers 404. */
    Person find(long id);

    /** {@code GET /users?name={name}&limit={limit}}: by id, those whose name begins so. */
    List<Person> list(String name, int limit);

    /** {@code POST /users}: gives the person the next id. Without a name: code 422. */
    Person save(Person user) throws BusinessException;

    /** {@code PUT /users/{id}}. */
    Person replace(long id, Person user);

    /** {@code DELETE /users/{id}}: whether there was one. */
    boolean remove(long id);

    /** {@code GET /status/{status}}: the app answers with it; a Java provider throws from 400 on. */
    String status(int status);
}
