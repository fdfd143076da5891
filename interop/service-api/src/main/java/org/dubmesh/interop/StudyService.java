package org.dubmesh.interop;

/** What the study of congestion calls. */
public interface StudyService {
    /** The text twice, after some work. */
    String twice(String text);

    /** At once, a text of so many characters. */
    String sized(String length);
}
