package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ConsumerConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.service.GenericService;
import org.dubmesh.interop.MissingService;
import org.dubmesh.interop.TypesService;

/**
 * Makes the calls of {@link Calls} one after the other, on one connection, and checks each result.
 *
 * <p>Prints {@code NAME = RESULT} for each call that returned what it should, {@code NAME FAILED:
 * ...} for each other one, and at the end {@code DONE}.
 */
final class Consumer {
    private final String url;
    private final int heartbeatMs;

    private Consumer(String url, int heartbeatMs) {
        this.url = url;
        this.heartbeatMs = heartbeatMs;
    }

    /** Returns the number of calls that failed. */
    static int run(Options options) throws Exception {
        String serialization = Provider.serialization(options);
        String url = options.text("--consume") + "?serialization=" + serialization
                + "&prefer.serialization=" + serialization;
        DubboBootstrap.getInstance()
                .application(new ApplicationConfig("interop-consumer"))
                .registry(new RegistryConfig(RegistryConfig.NO_AVAILABLE));
        Consumer consumer = new Consumer(url, options.number("--heartbeat-ms"));
        Calls.Services services = new Calls.Services();
        services.hello = consumer.reference(IHelloService.class, null, null);
        services.types = consumer.reference(TypesService.class, null, null);
        services.variant = consumer.reference(TypesService.class, Provider.GROUP, Provider.VERSION);
        services.missingGroup = consumer.reference(TypesService.class, "green", null);
        services.missing = consumer.reference(MissingService.class, null, null);
        services.map = consumer.generic("true");
        services.gson = consumer.generic("gson");
        Calls calls = new Calls(services, serialization.equals("fastjson"));
        int nFailed = makeCalls(calls, options.text("--calls"));
        System.out.println("DONE");
        System.out.flush();
        TypesServiceImpl.pause(options.number("--linger-ms"));
        return nFailed;
    }

    private static int makeCalls(Calls calls, String names) {
        List<String> wanted = names.equals("all") ? calls.names() : Arrays.asList(names.split(","));
        int nFailed = 0;
        for (String name : wanted) {
            Calls.Call call = calls.get(name);
            Object result;
            try {
                result = call.make.call();
            } catch (Throwable e) {
                result = e;
            }
            if (call.accepts(result)) {
                System.out.println(name + " = " + Calls.show(result));
            } else {
                nFailed++;
                System.out.println(name + " FAILED: " + Calls.show(result) + " instead of " + Calls.show(call.expected));
            }
        }
        return nFailed;
    }

    private <T> T reference(Class<T> type, String group, String version) {
        ReferenceConfig<T> reference = new ReferenceConfig<>();
        reference.setInterface(type);
        reference.setGroup(group);
        reference.setVersion(version);
        return configured(reference, type.getName());
    }

    private GenericService generic(String kind) {
        ReferenceConfig<GenericService> reference = new ReferenceConfig<>();
        reference.setInterface(TypesService.class.getName());
        reference.setGeneric(kind);
        return configured(reference, TypesService.class.getName());
    }

    private <T> T configured(ReferenceConfig<T> reference, String service) {
        // Dubbo 3 looks for the path of a direct URL only here.
        int query = url.indexOf('?');
        reference.setUrl(url.substring(0, query) + "/" + service + url.substring(query) + "&heartbeat=" + heartbeatMs);
        reference.setCheck(false);
        reference.setRetries(0);
        reference.setTimeout(5_000);
        reference.setConsumer(new ConsumerConfig());
        return Objects.requireNonNull(reference.get());
    }
}
