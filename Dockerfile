FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/tokenweir && /opt/tokenweir/bin/pip install --no-cache-dir -r requirements.lock
COPY base base
COPY collector collector
COPY store store
COPY slo slo
COPY cost cost
COPY alerts alerts
COPY actuators actuators
COPY dashboards dashboards
COPY stack stack
COPY tokenweir tokenweir
RUN /opt/tokenweir/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim-bookworm
RUN useradd --system --create-home --home-dir /var/lib/tokenweir tokenweir
COPY --from=build /opt/tokenweir /opt/tokenweir
ENV PATH=/opt/tokenweir/bin:$PATH PYTHONUNBUFFERED=1
USER tokenweir
VOLUME /var/lib/tokenweir
EXPOSE 8080 4317 4318 6000
ENTRYPOINT ["tokenweir"]
CMD ["up", "--data", "/var/lib/tokenweir"]
