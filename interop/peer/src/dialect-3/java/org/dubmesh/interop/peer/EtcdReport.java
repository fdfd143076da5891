package org.dubmesh.interop.peer;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.metadata.report.identifier.BaseMetadataIdentifier;
import org.apache.dubbo.metadata.report.identifier.KeyTypeEnum;
import org.apache.dubbo.metadata.report.identifier.MetadataIdentifier;
import org.apache.dubbo.metadata.report.identifier.ServiceMetadataIdentifier;
import org.apache.dubbo.metadata.report.identifier.SubscriberMetadataIdentifier;
import org.apache.dubbo.metadata.report.support.AbstractMetadataReport;

/**
 * Puts what Dubbo 3 reports of its services into etcd: the documents are Dubbo's own, and so are their keys. Dubbo 3
 * has no such report on Maven Central.
 */
final class EtcdReport extends AbstractMetadataReport {
    private static final long PATIENCE_SECONDS = 20;

    private final Client etcd;

    EtcdReport(URL url) {
        super(url);
        etcd = Client.builder().endpoints("http://" + url.getAddress()).build();
    }

    @Override
    protected void doStoreProviderMetadata(MetadataIdentifier identifier, String definition) {
        put(identifier, definition);
    }

    @Override
    protected void doStoreConsumerMetadata(MetadataIdentifier identifier, String parameters) {
        put(identifier, parameters);
    }

    private void put(BaseMetadataIdentifier identifier, String text) {
        String key = "/dubbo/" + identifier.getUniqueKey(KeyTypeEnum.PATH);
        try {
            etcd.getKVClient().put(bytes(key), bytes(text)).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException("cannot report " + key, e);
        }
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    @Override
    public String getServiceDefinition(MetadataIdentifier identifier) {
        throw new UnsupportedOperationException("nobody asks a provider");
    }

    @Override
    protected void doSaveMetadata(ServiceMetadataIdentifier identifier, URL url) {
        throw new UnsupportedOperationException("services are registered elsewhere");
    }

    @Override
    protected void doRemoveMetadata(ServiceMetadataIdentifier identifier) {
        throw new UnsupportedOperationException("services are registered elsewhere");
    }

    @Override
    protected List<String> doGetExportedURLs(ServiceMetadataIdentifier identifier) {
        throw new UnsupportedOperationException("services are registered elsewhere");
    }

    @Override
    protected void doSaveSubscriberData(SubscriberMetadataIdentifier identifier, String urls) {
        throw new UnsupportedOperationException("services are registered elsewhere");
    }

    @Override
    protected String doGetSubscribedURLs(SubscriberMetadataIdentifier identifier) {
        throw new UnsupportedOperationException("services are registered elsewhere");
    }
}
