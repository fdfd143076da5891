package org.dubmesh.interop.peer;

import com.google.gson.Gson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.dubbo.config.MetadataReportConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.metadata.definition.ServiceDefinitionBuilder;
import org.apache.dubbo.metadata.definition.model.FullServiceDefinition;
import org.dubmesh.interop.PeopleService;
import org.dubmesh.interop.ShopService;
import org.dubmesh.interop.TypesService;

/** Tells the world what the services look like. */
final class Metadata {
    private Metadata() {}

    /** Reports the definitions of the services to a metadata center, if there is one. */
    static void report(DubboBootstrap bootstrap, Options options) {
        if (!options.isSet("--metadata")) {
            return;
        }
        MetadataReportConfig metadata = new MetadataReportConfig();
        metadata.setAddress(options.text("--metadata"));
        // Written before the provider is ready, and again by nobody.
        metadata.setSyncReport(true);
        metadata.setCycleReport(false);
        bootstrap.metadataReport(metadata);
    }

    /** Writes the documents that Dubbo's own builder makes of the services, as files. */
    static void write(Options options) throws IOException {
        if (!options.isSet("--definitions")) {
            return;
        }
        for (Class<?> type : new Class<?>[] {TypesService.class, PeopleService.class, ShopService.class}) {
            Map<String, String> parameters = new HashMap<>();
            parameters.put("interface", type.getName());
            parameters.put("side", "provider");
            FullServiceDefinition definition = ServiceDefinitionBuilder.buildFullDefinition(type, parameters);
            Path path = Path.of(options.text("--definitions"), type.getName() + ".json");
            Files.writeString(path, new Gson().toJson(definition));
        }
    }
}
