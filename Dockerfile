# The analyst and the live page, without torch.
#
#     docker build -t nanopace .
#     docker run --rm -v "$PWD:/work" nanopace explain out/
#     docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" nanopace explain out/ --html report.html

FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY tools/long_description.py tools/
COPY src src
# The versions alone: a wheel that was built here has no hash in the list.
RUN sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;\]*\).*/\1/p' constraints.txt > versions.txt \
    && PIP_CONSTRAINT=versions.txt pip wheel --no-cache-dir --no-deps --wheel-dir wheels .

FROM python:3.12-slim
ARG EXTRAS=live
RUN --mount=type=bind,from=build,source=/build,target=/build \
    PIP_CONSTRAINT=/build/versions.txt pip install --no-cache-dir "nanopace[${EXTRAS}] @ file://$(ls /build/wheels/*.whl)"
# Anyone may be given with --user, so that reports belong to whoever asked for them.
RUN useradd --create-home nanopace && chmod 1777 /home/nanopace
ENV HOME=/home/nanopace USER=nanopace
USER nanopace
WORKDIR /work
ENTRYPOINT ["nanopace"]
CMD ["--help"]
