package org.dubmesh.interop.peer;

import java.util.concurrent.ThreadLocalRandom;
import org.dubmesh.interop.StudyService;

/** Works for a random time, which is only a sleep. */
final class StudyServiceImpl implements StudyService {
    private final int longestMs;

    StudyServiceImpl(int longestMs) {
        this.longestMs = longestMs;
    }

    @Override
    public String twice(String text) {
        TypesServiceImpl.pause(ThreadLocalRandom.current().nextInt(longestMs + 1));
        return text + text;
    }

    @Override
    public String sized(String length) {
        return "x".repeat(Integer.parseInt(length));
    }
}
