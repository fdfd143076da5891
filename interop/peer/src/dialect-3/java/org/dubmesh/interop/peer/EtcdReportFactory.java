package org.dubmesh.interop.peer;

import org.apache.dubbo.common.URL;
import org.apache.dubbo.metadata.report.MetadataReport;
import org.apache.dubbo.metadata.report.support.AbstractMetadataReportFactory;

/** Metadata reports to {@code etcd://HOST:PORT}. Dubbo finds it by its name in {@code META-INF/dubbo}. */
public final class EtcdReportFactory extends AbstractMetadataReportFactory {
    @Override
    protected MetadataReport createMetadataReport(URL url) {
        return new EtcdReport(url);
    }
}
