package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.dubmesh.interop.PeopleService;
import org.dubmesh.interop.ShopService;
import org.dubmesh.interop.StudyService;
import org.dubmesh.interop.TypesService;
import org.dubmesh.interop.UserService;

/** Publishes the services on one port of the loopback interface. */
final class Provider {
    static final String GROUP = "blue";
    static final String VERSION = "2.0.0";

    private Provider() {}

    static void start(Options options) throws Exception {
        int port = options.number("--port") == 0 ? freePort() : options.number("--port");
        ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
        protocol.setHost("127.0.0.1");
        protocol.setThreads(options.number("--threads"));
        protocol.setQueues(options.number("--queues"));
        protocol.setSerialization(serialization(options));
        protocol.setHeartbeat(options.number("--heartbeat-ms"));
        if (options.isSet("--telnet")) {
            protocol.setTelnet(options.text("--telnet"));
        }

        ServiceConfig<TypesService> variant =
                service(TypesService.class, new TypesServiceImpl(GROUP + "/" + VERSION), options);
        variant.setGroup(GROUP);
        variant.setVersion(VERSION);
        List<ServiceConfig<?>> services = new ArrayList<>(List.of(
                service(IHelloService.class, new HelloService(options.number("--sleep-ms")), options),
                service(TypesService.class, new TypesServiceImpl("plain"), options),
                service(PeopleService.class, new PeopleServiceImpl(), options),
                service(ShopService.class, new ShopServiceImpl(), options),
                service(UserService.class, new UserServiceImpl(), options),
                variant));
        if (options.isSet("--study-ms")) {
            services.add(service(StudyService.class, new StudyServiceImpl(options.number("--study-ms")), options));
        }
        RegistryConfig registry = Dialect.registry(options.textOrNull("--registry"), options.number("--session-ms"));
        Dialect.publish(options, registry, protocol, services);

        System.out.println("READY dubbo://127.0.0.1:" + port);
        System.out.flush();
    }

    /** The wanted serialization, if this Dubbo has it. */
    static String serialization(Options options) {
        String name = options.text("--serialization");
        boolean isKnown = org.apache.dubbo.common.extension.ExtensionLoader.getExtensionLoader(
                        org.apache.dubbo.common.serialize.Serialization.class)
                .hasExtension(name);
        if (!isKnown) {
            throw new IllegalArgumentException("Dubbo " + org.apache.dubbo.common.Version.getVersion()
                    + " as built here has no serialization '" + name + "'");
        }
        return name;
    }

    private static <T> ServiceConfig<T> service(Class<T> type, T implementation, Options options) {
        ServiceConfig<T> service = new ServiceConfig<>();
        service.setId(type.getSimpleName() + "-" + System.identityHashCode(implementation));
        service.setInterface(type);
        service.setRef(implementation);
        service.setWeight(options.number("--weight"));
        return service;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }
}
