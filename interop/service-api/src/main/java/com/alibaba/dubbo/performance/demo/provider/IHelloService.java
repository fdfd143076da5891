package com.alibaba.dubbo.performance.demo.provider;

/** The one service of the service-mesh contest of 2018, under the name that its load used. */
public interface IHelloService {
    /** Returns {@code text.hashCode()} after the provider's configured sleep. */
    int hash(String text);
}
