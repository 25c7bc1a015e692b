"""The source of a mirror as the exact writer sees it: records by target topic."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.copies.copying import Chunk
from barnabas.pipelines.copies.ordered_sink import with_timestamp_header
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.kafka_rows import TopicPartition, read_rows


class MirrorSource:
    def __init__(
        self,
        spark: SparkSession,
        cluster: Cluster,
        settings: Mapping[str, str],
        *,
        fail_on_data_loss: bool,
        timestamp_header: str | None,
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.settings = settings
        self.fail_on_data_loss = fail_on_data_loss
        self.timestamp_header = timestamp_header
        self.names: dict[str, str] = {}
        """Source topics by target topic."""
        self._compacted: dict[str, bool] = {}

    def rows(self, chunk: Chunk) -> DataFrame:
        spans = {(self.names[topic], partition): span for (topic, partition), span in chunk.items()}
        rows = read_rows(self.spark, self.settings, spans, fail_on_data_loss=self.fail_on_data_loss)
        if self.timestamp_header is not None:
            rows = with_timestamp_header(rows, self.timestamp_header)
        renamed = {self.names[topic]: topic for topic, _ in chunk if self.names[topic] != topic}
        if renamed:
            words = [F.lit(word) for pair in renamed.items() for word in pair]
            rows = rows.withColumn("topic", F.coalesce(F.create_map(*words)[F.col("topic")], "topic"))
        return rows.select("topic", "partition", "offset", "key", "value", "headers")

    def begin_offsets(self, targets: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(targets)
        begins = self.cluster.begin_offsets({self.names[topic] for topic, _ in wanted})
        return {(topic, partition): begins[self.names[topic], partition] for topic, partition in wanted}

    def is_compacted(self, topic: str) -> bool:
        if topic not in self._compacted:
            source = self.names[topic]
            policy = self.cluster.effective_configs([source], ["cleanup.policy"])[source].get("cleanup.policy", "")
            self._compacted[topic] = "compact" in policy
        return self._compacted[topic]
