package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.dubbo.config.ConsumerConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.service.EchoService;
import org.apache.dubbo.rpc.service.GenericService;
import org.dubmesh.interop.MissingService;
import org.dubmesh.interop.StudyService;
import org.dubmesh.interop.TypesService;
import org.dubmesh.interop.UserService;

/**
 * Makes the calls of {@link Calls} one after the other, on one connection, and checks each result.
 *
 * <p>Prints {@code NAME = RESULT} for each call that returned what it should, {@code NAME FAILED:
 * ...} for each other one, and at the end {@code DONE}.
 */
final class Consumer {
    private static final String APPLICATION = "interop-consumer";
    /** How long a provider may take to show up in the registry. */
    private static final int PATIENCE_MS = 20_000;
    /** The timeout of a call that is to run into it. */
    private static final int IMPATIENT_MS = 300;

    private final Options options;
    private final RegistryConfig registry;
    private final String serialization;

    private Consumer(Options options) {
        this.options = options;
        registry = Dialect.registry(options.textOrNull("--consume-registry"), options.number("--session-ms"));
        serialization = Provider.serialization(options);
    }

    /** Returns the number of calls that failed. */
    static int run(Options options) throws Exception {
        Consumer consumer = new Consumer(options);
        Dialect.beginConsumer(APPLICATION, consumer.registry);
        if (options.isSet("--load")) {
            System.out.println(consumer.load().run());
            return 0;
        }
        TypesService types = consumer.reference(TypesService.class, null, null);
        Calls.Services services = consumer.services(types);
        for (Object service : List.of(services.types, services.hello, services.users, services.variant)) {
            consumer.awaitProvider(service);
        }
        Calls calls = new Calls(services);
        int nFailed = makeCalls(calls, options);
        System.out.println("DONE");
        System.out.flush();
        TypesServiceImpl.pause(options.number("--linger-ms"));
        return nFailed;
    }

    /** The calls of {@code --load}: of a small text, or of one as long as {@code --request-bytes} says. */
    private Load load() {
        if (options.isSet("--request-bytes")) {
            StudyService study = reference(StudyService.class, null, null);
            awaitProvider(study);
            String text = "x".repeat(options.number("--request-bytes"));
            return new Load(study::twice, text, text + text, options);
        }
        TypesService types = reference(TypesService.class, null, null);
        awaitProvider(types);
        return new Load(types::text, Load.SMALL, Load.SMALL, options);
    }

    private Calls.Services services(TypesService types) {
        Calls.Services services = new Calls.Services();
        services.types = types;
        services.hello = reference(IHelloService.class, null, null);
        services.users = reference(UserService.class, null, null);
        services.variant = reference(TypesService.class, Provider.GROUP, Provider.VERSION);
        services.missingGroup = reference(TypesService.class, "green", null);
        services.missing = reference(MissingService.class, null, null);
        services.impatient = reference(TypesService.class, null, null, IMPATIENT_MS);
        services.map = generic("true");
        services.gson = Dialect.HAS_GSON ? generic("gson") : null;
        services.bean = generic("bean");
        return services;
    }

    /** Waits until the registry knows of a provider. Without one there is nothing to wait for. */
    private void awaitProvider(Object service) {
        if (!options.isSet("--consume-registry")) {
            return;
        }
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000L;
        while (true) {
            try {
                ((EchoService) service).$echo("ready?");
                return;
            } catch (RpcException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
                TypesServiceImpl.pause(20);
            }
        }
    }

    private static int makeCalls(Calls calls, Options options) {
        int nFailed = 0;
        for (String name : wanted(calls, options)) {
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

    private static List<String> wanted(Calls calls, Options options) {
        String names = options.text("--calls");
        List<String> wanted = new ArrayList<>(
                switch (names) {
                    case "all" -> calls.names();
                    case "recordable" -> calls.recordableNames();
                    default -> Arrays.asList(names.split(","));
                });
        wanted.removeAll(Arrays.asList(options.text("--except").split(",")));
        return wanted;
    }

    private <T> T reference(Class<T> type, String group, String version) {
        return reference(type, group, version, options.number("--timeout-ms"));
    }

    private <T> T reference(Class<T> type, String group, String version, int timeoutMs) {
        ReferenceConfig<T> reference = new ReferenceConfig<>();
        reference.setInterface(type);
        reference.setGroup(group);
        reference.setVersion(version);
        return configured(reference, type.getName(), timeoutMs);
    }

    private GenericService generic(String kind) {
        ReferenceConfig<GenericService> reference = new ReferenceConfig<>();
        reference.setInterface(TypesService.class.getName());
        reference.setGeneric(kind);
        return configured(reference, TypesService.class.getName(), options.number("--timeout-ms"));
    }

    private <T> T configured(ReferenceConfig<T> reference, String service, int timeoutMs) {
        if (options.isSet("--consume")) {
            reference.setUrl(direct(options.text("--consume"), service));
        }
        Dialect.prepare(reference, APPLICATION, registry);
        reference.setCheck(false);
        reference.setRetries(0);
        reference.setTimeout(timeoutMs);
        if (options.number("--connections") > 0) {
            reference.setConnections(options.number("--connections"));
        }
        reference.setConsumer(new ConsumerConfig());
        return Objects.requireNonNull(reference.get());
    }

    /** A URL straight to a provider. Dubbo 3 reads the path only from there. */
    private String direct(String url, String service) {
        String[] parts = url.split("\\?", 2);
        return parts[0] + "/" + service + "?serialization=" + serialization + "&prefer.serialization="
                + serialization + "&heartbeat=" + options.number("--heartbeat-ms")
                + (parts.length == 2 ? "&" + parts[1] : "");
    }
}
