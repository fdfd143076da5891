package org.dubmesh.interop.peer;

import com.alibaba.dubbo.performance.demo.provider.IHelloService;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.HashMap;
import java.util.Map;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.dubmesh.interop.TypesService;

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
        protocol.setSerialization(serialization(options));
        protocol.setHeartbeat(options.number("--heartbeat-ms"));
        if (options.isSet("--telnet")) {
            protocol.setTelnet(options.text("--telnet"));
        }

        DubboBootstrap bootstrap = DubboBootstrap.getInstance()
                .application(new ApplicationConfig(options.text("--application")))
                .registry(registry(options))
                .protocol(protocol)
                .service(service(IHelloService.class, new HelloService(options.number("--sleep-ms")), options))
                .service(service(TypesService.class, new TypesServiceImpl("plain"), options));
        ServiceConfig<TypesService> variant =
                service(TypesService.class, new TypesServiceImpl(GROUP + "/" + VERSION), options);
        variant.setGroup(GROUP);
        variant.setVersion(VERSION);
        Metadata.report(bootstrap, options);
        Metadata.write(options);
        bootstrap.service(variant).start();

        System.out.println("READY dubbo://127.0.0.1:" + port);
        System.out.flush();
    }

    static RegistryConfig registry(Options options) {
        if (!options.isSet("--registry")) {
            return new RegistryConfig(RegistryConfig.NO_AVAILABLE);
        }
        RegistryConfig registry = new RegistryConfig(options.text("--registry").replaceFirst("^etcd:", "etcd3:"));
        registry.setUseAsConfigCenter(false);
        registry.setUseAsMetadataCenter(false);
        registry.setTimeout(10_000);
        registry.setSession(options.number("--session-ms"));
        Map<String, String> parameters = new HashMap<>();
        parameters.put("register-mode", "interface");
        registry.setParameters(parameters);
        return registry;
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
