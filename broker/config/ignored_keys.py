"""The broker keys that Kafka 4.3 knows and that change nothing here, so that a server.properties of Kafka's loads.

They are accepted, checked for their type and listed in one line at start-up. When one begins to matter it moves to the
declarations of `BrokerConfig`.
"""

from barnabas.base.config_def import ConfigKey, ConfigType, UpdateMode

_BY_TYPE = {
    ConfigType.BOOLEAN: """
        controlled.shutdown.enable
        follower.fetch.last.tiered.offset.enable remote.log.storage.system.enable
        sasl.oauthbearer.assertion.claim.jti.include ssl.allow.dn.changes ssl.allow.san.changes
        unstable.api.versions.enable unstable.feature.versions.enable
    """,
    ConfigType.STRING: """
        authorizer.class.name group.share.persister.class.name metrics.recording.level
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix sasl.kerberos.kinit.cmd
        sasl.kerberos.service.name sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.template.file
        sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
        sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.inter.broker.protocol
        security.providers ssl.client.auth ssl.endpoint.identification.algorithm ssl.keymanager.algorithm
        ssl.keystore.location ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.type
    """,
    ConfigType.INT: """
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        background.threads connection.failed.authentication.delay.ms controller.quorum.append.linger.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quorum.retry.backoff.ms controller.quota.window.num controller.quota.window.size.seconds
        controller.socket.timeout.ms delete.records.purgatory.purge.interval.requests
        fetch.purgatory.purge.interval.requests group.share.assignment.interval.ms group.share.delivery.count.limit
        group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
        group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
        group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
        group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
        internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
        kafka.metrics.polling.interval.secs log.cleaner.io.buffer.size log.cleaner.threads metrics.num.samples
        num.io.threads num.network.threads num.replica.alter.log.dirs.threads num.replica.fetchers
        producer.purgatory.purge.interval.requests quota.window.num quota.window.size.seconds
        remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
        remote.log.manager.follower.thread.pool.size remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.reader.max.pending.tasks remote.log.reader.threads
        replica.socket.receive.buffer.bytes
        sasl.login.connect.timeout.ms
        sasl.login.read.timeout.ms sasl.oauthbearer.assertion.claim.exp.seconds
        sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.clock.skew.seconds
        sasl.server.max.receive.size share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
        share.fetch.purgatory.purge.interval.requests telemetry.max.bytes
    """,
    ConfigType.SHORT: """
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        share.coordinator.state.topic.min.isr share.coordinator.state.topic.replication.factor
    """,
    ConfigType.LONG: """
        connections.max.reauth.ms controller.performance.always.log.threshold.ms
        controller.performance.sample.period.ms delegation.token.expiry.check.interval.ms
        delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
        internal.metadata.delete.delay.millis
        log.initial.task.delay.ms metrics.sample.window.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms replica.alter.log.dirs.io.max.bytes.per.second
        sasl.kerberos.min.time.before.relogin
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        server.max.startup.time.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    """,
    ConfigType.DOUBLE: """
        remote.log.manager.task.retry.jitter sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    """,
    ConfigType.LIST: """
        config.providers cordoned.log.dirs early.start.listeners group.share.assignors kafka.metrics.reporters
        metric.reporters sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules
        sasl.oauthbearer.expected.audience ssl.cipher.suites ssl.enabled.protocols
    """,
    ConfigType.CLASS: """
        alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
        principal.builder.class sasl.client.callback.handler.class sasl.login.callback.handler.class
        sasl.login.class sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
        sasl.server.callback.handler.class ssl.engine.factory.class
    """,
    ConfigType.PASSWORD: """
        delegation.token.secret.key sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.client.credentials.client.secret ssl.key.password ssl.keystore.certificate.chain
        ssl.keystore.key ssl.keystore.password ssl.truststore.certificates ssl.truststore.password
    """,
    # Read by Kafka's own authorizer, not part of its configuration: DescribeConfigs knows no type for them.
    ConfigType.UNKNOWN: """
        allow.everyone.if.no.acl.found super.users
    """,
}

_CLUSTER_WIDE = """
    background.threads config.providers follower.fetch.last.tiered.offset.enable
    group.share.assignment.interval.ms group.streams.assignment.interval.ms
    log.cleaner.io.buffer.size log.cleaner.threads metric.reporters
    num.io.threads num.network.threads num.replica.fetchers remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.follower.thread.pool.size remote.log.reader.threads
    replica.alter.log.dirs.io.max.bytes.per.second share.coordinator.cached.buffer.max.bytes
"""

_PER_BROKER = """
    cordoned.log.dirs principal.builder.class sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""

_PREFIXES = ("listener.name.", "config.providers.", "metrics.context.", "rlmm.config.", "rsm.config.")
"""Prefixes before a name that the user chooses: a listener, a provider, the settings of a plug-in."""


def ignored_keys() -> dict[str, ConfigKey]:
    """Builds the table when it is asked for: most brokers never need it."""
    modes = dict.fromkeys(_CLUSTER_WIDE.split(), UpdateMode.CLUSTER_WIDE)
    modes |= dict.fromkeys(_PER_BROKER.split(), UpdateMode.PER_BROKER)
    return {
        name: ConfigKey(name, config_type, None, "", update_mode=modes.get(name, UpdateMode.READ_ONLY), honoured=False)
        for config_type, names in _BY_TYPE.items()
        for name in names.split()
    }


def prefixed_key(name: str) -> ConfigKey | None:
    """Returns the key of a name such as listener.name.internal.ssl.key.password, which has the type of what it
    specialises."""
    if not name.startswith(_PREFIXES):
        return None
    base = name.split(".", 3)[3] if name.startswith("listener.name.") and name.count(".") >= 3 else ""
    known = ignored_keys().get(base)
    config_type = known.type if known is not None else ConfigType.UNKNOWN
    return ConfigKey(name, config_type, None, "", update_mode=UpdateMode.PER_BROKER, honoured=False)
