package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;

/** The contest's service: a fixed sleep, then the hash. */
final class HelloService implements IHelloService {
    private final long sleepMs;

    HelloService(long sleepMs) {
        this.sleepMs = sleepMs;
    }

    @Override
    public int hash(String text) {
        if (sleepMs > 0) {
            TypesServiceImpl.pause(sleepMs);
        }
        return text.hashCode();
    }
}
