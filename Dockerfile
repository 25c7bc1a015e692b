# A broker in a container: docker build -t barnabas . && docker run -p 9092:9092 barnabas
# Settings are taken as by Apache Kafka's own image; docs/operations.md says more.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# Further options of pip, such as --index-url.
ARG PIP_OPTIONS=""
WORKDIR /src
COPY . .
RUN python3 -m venv /tools \
    && python3 -m venv --without-pip /opt/barnabas \
    && /tools/bin/pip --python /opt/barnabas/bin/python install --no-cache-dir ${PIP_OPTIONS} .

FROM ${BASE}
COPY --from=build /opt/barnabas /opt/barnabas
ENV PATH=/opt/barnabas/bin:${PATH}
# Python's slim images come without bytecode, and the user below may write none: a start would compile what it loads of
# the standard library, every time. So a broker starts once here, asked by the health check. That proves the image, too.
RUN mkdir -p /var/lib/kafka/data /mnt/shared/config \
    && chown -R 1000:0 /var/lib/kafka /mnt/shared/config && chmod -R g=u /var/lib/kafka /mnt/shared/config \
    && { python -m barnabas.container --ephemeral & } \
    && for try in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; python -m barnabas.container_health && break; done \
    && kill $! && wait $!

# The same user and volume as in Apache Kafka's image, so that what is mounted there fits here.
USER 1000
VOLUME /var/lib/kafka/data
WORKDIR /var/lib/kafka
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["python", "-m", "barnabas.container_health"]
ENTRYPOINT ["python", "-m", "barnabas.container"]
