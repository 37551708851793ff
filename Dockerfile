# A small image that serves a model; docs/serving.md shows how to build and run it.
# The wheel is built in one stage, so that compilers are not part of the image.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /scurry
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /scurry

FROM python:3.12-slim
# Serving .scurry files needs neither scikit-learn nor scipy.
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[cli,serve]" \
    && rm -r /wheels \
    && useradd --no-create-home scurry
USER scurry
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=2s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=1)"]
# The form with brackets starts no shell, which would not pass SIGTERM on.
ENTRYPOINT ["scurry", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/model.scurry"]
