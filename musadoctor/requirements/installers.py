"""What one command line would install: pip, uv, poetry, pipenv, pdm, conda, pixi, rye, hatch, pipx.

The options of pip 26, uv 0.13, poetry 2.5, pipenv 2026 and pdm 2.29 were read off the tools. Those
of conda, mamba, micromamba, pixi, rye, hatch and pipx come from their documentation: unconfirmed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from musadoctor.facts.requirements import Entry
from musadoctor.requirements.match_spec import channel_name, spec_entry, without_token
from musadoctor.requirements.pip_file import PLACEHOLDER
from musadoctor.requirements.poetry import pep440
from musadoctor.requirements.requirement import address, entry_of, shown, torch_index


class Install(NamedTuple):
    """An installer's command line, understood."""

    tool: str
    """``pip``, ``uv pip``, ``uv``, ``poetry``, ``pipenv``, ``pdm``, ``conda``, ``mamba``,
    ``micromamba``, ``pixi``, ``rye``, ``hatch``, ``pipx``."""
    action: str
    """``install``, ``sync``, ``uninstall``, ``add``, ``run``, ``tool install``, ``env create``,
    ...; empty where the command names none."""
    program: tuple[str, ...]
    """The words before the action, without the tool's options: ``sudo python3.10 -m pip``,
    ``conda run -n gpu pip``."""
    python: str = ""
    """The interpreter that it installs into, where the command names one: ``python3.10`` of
    ``python3.10 -m pip``, ``/opt/venv/bin/python3`` of ``/opt/venv/bin/pip``, the value of
    ``--python``; for uv it may be a version."""
    target: str = ""
    """``--target=DIR``, ``--prefix=DIR``, ``--root=DIR``, ``--user``; of conda ``--name=ENV``."""
    project: str = ""
    """The folder or manifest whose project it works on, where the command names one."""
    requirements: tuple[str, ...] = ()
    editables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Of ``-r``, of conda's ``--file`` and of ``uv pip sync``."""
    constraints: tuple[str, ...] = ()
    """Of ``-c`` and of uv's ``--override``."""
    indexes: tuple[tuple[str, str], ...] = ()
    """Option and URL; of conda and pixi ``--channel`` and its name."""
    flags: tuple[str, ...] = ()
    """Long forms of those that change what happens to the environment: ``--upgrade``,
    ``--upgrade-package=torch``, ``--upgrade-strategy=eager``, ``--no-deps``, ... Commands whose
    purpose it is, such as ``poetry update``, have ``--upgrade`` too."""
    settings: tuple[str, ...] = ()
    """For the build backend: ``cmake.args=-DGGML_CUDA=on``."""
    variables: tuple[tuple[str, str], ...] = ()
    """The assignments before the command: ``MAX_JOBS=4 pip install ...``."""
    command: tuple[str, ...] = ()
    """What ``run`` is to start."""
    harmless: bool = False
    """Nothing would be installed or removed: ``--help``, ``--dry-run``, ``pip list``, a lock."""
    unknown: tuple[str, ...] = ()
    """Options that the tool is not known to have."""


class _Options(NamedTuple):
    """The options of a command: each of its names with the one that stands for all."""

    values: Mapping[str, str]
    flags: Mapping[str, str]
    abbreviated: bool
    """Whether the tool takes the beginning of a long name, as Python's own parsers do."""


class _Scanned(NamedTuple):
    options: list[tuple[str, str]]
    words: list[str]
    rest: list[str]
    """From the first word on, where the scan was to stop there."""
    unknown: list[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of each option the names, the one that stands for all first; `=` says that it takes a value.
_HELP = "--help,-h"
_PIP_GENERAL = f"""
{_HELP} --version,-V --debug --isolated --require-virtualenv,--require-venv --verbose,-v --quiet,-q
--no-input --no-proxy-env --no-cache-dir --disable-pip-version-check --no-color
--no-python-version-warning
--python= --log,--log-file,--local-log= --keyring-provider= --proxy= --retries=
--timeout,--default-timeout= --exists-action= --trusted-host= --cert= --client-cert= --cache-dir=
--use-feature= --use-deprecated= --resume-retries=
"""
_PIP = f"""{_PIP_GENERAL}
--requirement,-r= --constraint,-c= --build-constraint= --requirements-from-script= --editable,-e=
--target,-t= --platform= --python-version= --implementation= --abi= --root= --prefix=
--src,--source,--source-dir,--source-directory= --upgrade-strategy= --config-settings,-C=
--progress-bar= --root-user-action= --report= --group= --all-releases= --only-final= --no-binary=
--only-binary= --index-url,--pypi-url,-i= --extra-index-url= --refresh-package= --find-links,-f=
--uploaded-prior-to= --global-option= --install-option= --build-option= --build,-b=
--no-deps,--no-dependencies --only-deps,--only-dependencies --dry-run --user --no-user --upgrade,-U
--force-reinstall --ignore-installed,-I --ignore-requires-python --no-build-isolation --use-pep517
--no-use-pep517 --check-build-dependencies --break-system-packages --compile --no-compile
--no-warn-script-location --no-warn-conflicts --require-hashes --no-require-hashes --no-clean --pre
--prefer-binary --no-index --process-dependency-links --egg --yes,-y
"""
_UV_GENERAL = f"""
{_HELP} --version,-V --no-cache,--no-cache-dir,-n --managed-python --no-managed-python
--no-python-downloads --allow-python-downloads --quiet,-q --verbose,-v --no-color --system-certs
--no-system-certs --native-tls --no-native-tls --offline --no-offline --no-progress --no-config
--preview --no-preview --show-settings --isolated --no-installer-metadata
--cache-dir= --color= --allow-insecure-host,--trusted-host= --directory= --project= --config-file=
--python-preference= --python-fetch= --preview-features=
"""
_UV_RESOLVER = f"""{_UV_GENERAL}
--index= --default-index= --index-url,-i= --extra-index-url= --find-links,-f= --index-strategy=
--keyring-provider= --upgrade-package,-P= --upgrade-group= --resolution= --prerelease=
--prerelease-package= --fork-strategy= --exclude-newer= --exclude-newer-package=
--no-sources-package= --reinstall-package= --link-mode= --config-settings,--config-setting,-C=
--config-settings-package,--config-setting-package= --no-build-isolation-package=
--no-editable-package= --no-build-package= --no-binary-package= --refresh-package= --python,-p=
--python-platform= --torch-backend= --constraint,--constraints,-c=
--override,--overrides= --exclude,--excludes= --build-constraint,--build-constraints,-b= --cert=
--group= --extra= --output-format=
--no-index --upgrade,-U --no-upgrade --no-sources --reinstall,--force-reinstall --no-reinstall
--compile-bytecode,--compile --no-compile-bytecode,--no-compile --no-build-isolation
--build-isolation --refresh --no-refresh --require-build-hashes --no-require-build-hashes --pre
--no-editable --all-extras --no-all-extras --exact --inexact --dry-run --check --strict --no-strict
"""
_UV_PIP = f"""{_UV_RESOLVER}
--requirement,--requirements,-r= --editable,-e= --target,-t= --prefix= --no-binary= --only-binary=
--python-version=
--no-deps --deps --require-hashes --no-require-hashes --verify-hashes --no-verify-hashes --system
--no-system --break-system-packages --no-break-system-packages --no-build --build --user
--allow-empty-requirements --no-allow-empty-requirements --disable-pip-version-check
"""
_UV_PROJECT = f"""{_UV_RESOLVER}
--requirement,--requirements,-r= --marker,-m= --optional= --bounds= --rev= --tag= --branch=
--package= --script= --no-extra= --no-group= --only-group= --no-install-package= --env-file=
--dev --editable --raw --lfs --no-sync --locked --frozen --active --no-active --workspace
--no-workspace --no-install-project --no-install-workspace --no-install-local --no-build
--no-binary --no-dev --only-dev --no-default-groups --all-groups --all-packages --check-exists
"""
_UV_RUN = f"""{_UV_RESOLVER}
--with,-w= --with-editable= --with-requirements= --package= --no-extra= --no-group= --only-group=
--env-file= --from= --with-executables-from= --only-binary=
--module,-m --script,-s --gui-script --no-env-file --isolated --active --no-active --no-sync
--locked --frozen --all-packages --no-project --no-dev --only-dev --dev --no-default-groups
--all-groups --no-build --no-binary --lfs --force --editable,-e --all
"""
_POETRY = f"""
{_HELP} --quiet,-q --version,-V --ansi --no-ansi --no-interaction,-n --no-plugins --no-cache
--verbose,-v
--project,-P= --directory,-C=
--group,-G= --extras,-E= --optional= --python= --platform= --markers= --source= --without= --with=
--only= --with-executables=
--dev,-D --editable,-e --allow-prereleases --dry-run --lock --sync --no-root --no-directory
--all-extras --all-groups --only-root --compile --regenerate --no-update --no-dev
"""
_PIPENV = f"""
{_HELP} --version --where --venv --py --envs --rm --bare --man --support --verbose,-v --quiet,-q
--clear --site-packages --no-site-packages --system --deploy --pre --dev,-d --all --ignore-pipfile
--skip-lock --outdated --dry-run --lock-only --clean --all-dev --dev-only --sequential
--keep-outdated --selective-upgrade --three --two
--pypi-mirror= --python= --extra-pip-args= --resolver= --categories= --extras= --config-settings=
--index,-i= --requirement,--requirements,-r= --editable,-e= --extra-index-url=
"""
_PDM = f"""
{_HELP} --version,-V --verbose,-v --quiet,-q --global,-g --frozen-lockfile,--no-lock
--pre,--prerelease --stable --unconstrained,-u --dry-run,--outdated --dev,-d --no-sync
--save-compatible --save-safe-compatible --save-wildcard --save-exact --save-minimum
--update-reuse --update-eager --update-all --update-reuse-installed --no-editable --no-self
--fail-fast,-x --no-build-isolation,--no-isolation --check --plugins --without --no-default
--prod,--production --clean --only-keep,--clean-unselected --reinstall,-r --top,-t --append
--refresh --no-cross-platform --static-urls --no-static-urls --list,-l --json,-j
--site-packages,-s --recreate --ignore-python,-I
--project,-p= --override= --lockfile,-L= --skip,-k= --venv= --group,--with,-G= --editable,-e=
--config-settings,--config-setting,-C= --exclude-newer= --exclude-newer-override= --strategy,-S=
--python= --platform= --implementation= --env= --env-file= --working-dir= --config,-c=
"""
_CONDA = f"""
{_HELP} --version,-V --yes,-y --quiet,-q --verbose,-v --debug --json --dry-run,-d --download-only
--offline --no-channel-priority --strict-channel-priority --channel-priority --override-channels
--use-local --insecure,-k --no-deps,--no-dependencies --only-deps,--only-dependencies
--force-reinstall --no-pin --copy --show-channel-urls --mkdir,-m --update-deps,--update-dependencies
--no-update-deps --freeze-installed --update-specs --update-all,--all,-a --satisfied-skip-solve,-S
--clobber --use-index-cache,-C --no-default-packages --dev --force --force-remove --prune
--no-capture-output --live-stream,--no-capture --override-frozen --revision-pinned --no-rc --no-env
--always-yes --no-lock --file-locks --pinned
--name,-n= --prefix,-p= --channel,-c= --file,-f= --solver= --experimental= --repodata-fn=
--clone= --revision= --subdir,--platform= --cwd= --package-name= --format= --category= --rc-file=
--root-prefix,-r= --env,-e=
"""
_PIXI = f"""
{_HELP} --version,-V --verbose,-v --quiet,-q --no-progress --pypi --editable --frozen --locked
--no-install --no-lockfile-update --no-lock --all,-a --host --build --as-is --force --clean-env
--skip-deps --dry-run,-n --no-shortcuts --force-reinstall --revalidate --json --tls-no-verify
--color= --manifest-path,--manifest,-m= --workspace,-w= --feature,-f= --platform,-p=
--environment,-e= --channel,-c= --spec,-s= --with= --expose= --git= --branch= --tag= --rev=
--subdir= --index= --skip= --only= --auth-file= --pypi-keyring-provider= --concurrent-downloads=
--concurrent-solves= --run-post-link-scripts= --tls-root-certs= --pinning-strategy=
"""
_RYE = f"""
{_HELP} --version,-V --verbose,-v --quiet,-q --dev --excluded --pre --sync --no-sync --pin-equal
--no-lock --update-all --all-features --no-dev --lock-dirty --force,-f --all,-a --list,-l
--with-sources
--git= --url= --path= --absolute= --tag= --branch= --rev= --features= --optional= --pin=
--pyproject= --extra-requirement= --module-path= --include-dep=
"""
_HATCH = f"""
{_HELP} --version --verbose,-v --quiet,-q --no-color --color --interactive --no-interactive
--force-continue --ignore-compat,-i --internal
--env,-e= --project,-p= --data-dir= --cache-dir= --config= --include= --exclude= --filter=
"""
_PIPX = f"""
{_HELP} --version --verbose,-v --quiet,-q --force,-f --editable,-e --include-deps --global
--system-site-packages --no-cache --include-apps --preinstall-only --fetch-missing-python --path
--python= --suffix= --pip-args= --index-url,-i= --spec= --preinstall= --backend= --with=
"""

_KEPT = _names(
    """
    --upgrade --upgrade-package --upgrade-group --upgrade-strategy --force-reinstall --reinstall
    --reinstall-package --ignore-installed --no-deps --only-deps --no-build-isolation --isolated
    --user --system --break-system-packages --pre --exact --inexact --no-install-package --dry-run
    --active --frozen --locked --no-index --no-config --config-file --no-sync --sync --clean --prune
    --torch-backend --pypi --only-root --lock --skip-lock --ignore-pipfile --update-deps
    --freeze-installed --only-binary --no-project
    """
)
"""Flags that :attr:`Install.flags` keeps."""
_UNDOES = {
    "--no-upgrade": "--upgrade",
    "--no-reinstall": "--reinstall",
    "--no-user": "--user",
    "--deps": "--no-deps",
    "--build-isolation": "--no-build-isolation",
    "--no-system": "--system",
    "--no-break-system-packages": "--break-system-packages",
    "--no-active": "--active",
}
_HARMLESS = _names("--help --version --dry-run --download-only --lock-only")
_INDEXES = _names(
    "--index-url --extra-index-url --find-links --index --default-index --pypi-mirror --channel"
)
_ELSEWHERE = _names("--target --prefix --root")
_UPDATES = frozenset({"update", "upgrade", "tool upgrade"})
_REMOVES = frozenset({"uninstall", "remove"})


class _Tool(NamedTuple):
    general: str
    """The options before the action."""
    actions: Mapping[str, str]
    """The options of each action that installs or removes; of all else nothing is installed."""
    harmless: Mapping[str, frozenset[str]] = {}
    """By action: the options with which it changes no environment."""
    nested: frozenset[str] = frozenset()
    """First words of actions of two words."""
    abbreviated: bool = True


def _same(options: str, actions: str) -> Mapping[str, str]:
    return dict.fromkeys(actions.split(","), options)


_NO_SYNC = frozenset({"--no-sync", "--frozen", "--lock"})
_CONDA_TOOL = _Tool(
    _CONDA,
    _same(_CONDA, "install,create,update,upgrade,remove,uninstall,run,env create,env update"),
    nested=frozenset({"env"}),
)
_TOOLS: Mapping[str, _Tool] = {
    "pip": _Tool(_PIP_GENERAL, _same(_PIP, "install,uninstall")),
    "uv": _Tool(
        _UV_GENERAL,
        {
            **_same(_UV_PIP, "pip install,pip sync,pip uninstall"),
            **_same(_UV_PROJECT, "sync,add,remove"),
            **_same(_UV_RUN, "run,tool install,tool run,tool upgrade"),
        },
        {
            "pip install": frozenset({"--check"}),
            "pip sync": frozenset({"--check"}),
            "sync": frozenset({"--check"}),
            "add": _NO_SYNC,
            "remove": _NO_SYNC,
        },
        nested=frozenset({"pip", "tool"}),
        abbreviated=False,
    ),
    "poetry": _Tool(
        _POETRY,
        _same(_POETRY, "install,sync,add,update,remove,run"),
        {"add": _NO_SYNC, "update": _NO_SYNC, "remove": _NO_SYNC},
        nested=frozenset({"self"}),
    ),
    "pipenv": _Tool(_PIPENV, _same(_PIPENV, "install,sync,update,upgrade,uninstall,run")),
    "pdm": _Tool(
        _PDM,
        _same(_PDM, "install,sync,add,update,remove,run"),
        {
            "install": frozenset({"--check"}),
            "add": _NO_SYNC,
            "update": _NO_SYNC,
            "remove": _NO_SYNC,
        },
    ),
    "conda": _CONDA_TOOL,
    "mamba": _CONDA_TOOL,
    "micromamba": _CONDA_TOOL,
    "pixi": _Tool(
        _PIXI,
        _same(
            _PIXI,
            "install,reinstall,add,update,upgrade,remove,run,shell,exec,"
            "global install,global update,global add",
        ),
        dict.fromkeys(("add", "remove", "update", "upgrade"), frozenset({"--no-install"})),
        nested=frozenset({"global"}),
        abbreviated=False,
    ),
    "rye": _Tool(
        _RYE, _same(_RYE, "sync,add,remove,install,run"), {"add": _NO_SYNC}, abbreviated=False
    ),
    "hatch": _Tool(_HATCH, _same(_HATCH, "run,shell,env create"), nested=frozenset({"env"})),
    "pipx": _Tool(_PIPX, _same(_PIPX, "install,inject,run,upgrade")),
}
_ALIASES = {
    ("conda", "upgrade"): "update",
    ("mamba", "upgrade"): "update",
    ("micromamba", "upgrade"): "update",
    ("conda", "uninstall"): "remove",
    ("mamba", "uninstall"): "remove",
    ("micromamba", "uninstall"): "remove",
    ("pixi", "i"): "install",
    ("pixi", "a"): "add",
    ("pixi", "r"): "run",
    ("pixi", "rm"): "remove",
    ("pixi", "x"): "exec",
}
_CONDA_LIKE = frozenset({"conda", "mamba", "micromamba"})
_STARTS_ALONE = frozenset({"poetry", "pipenv", "pdm", "rye", "hatch", *_CONDA_LIKE})
"""Tools whose ``run`` only starts what follows; uv's and pixi's bring the environment up first."""

# By prefix: its short options that take a value, and how many words of its own follow them.
_PREFIXES = {
    "sudo": ("CDghpRrTtUu", 0),
    "doas": ("Cu", 0),
    "env": ("uC", 0),
    "time": ("fo", 0),
    "nice": ("n", 0),
    "ionice": ("cnp", 0),
    "nohup": ("", 0),
    "exec": ("a", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "timeout": ("ks", 1),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "chroot": ("", 1),
    "xargs": ("adEILnPs", 0),
    "proxychains": ("f", 0),
    "proxychains4": ("f", 0),
}
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL | re.ASCII)
_PYTHON = re.compile(r"(?:python|pypy|pythonw)[\d.]*[td]?|py", re.ASCII)
_PIP_NAME = re.compile(r"pip-?(?P<version>[\d.]*)", re.ASCII)
_PLACEHOLDER = re.compile(r"\$[\w{(]|`|\{\{|\{%|%\w+%", re.ASCII)
_OF_VARIABLE = re.compile(r"pip[\d.]*|uv|conda|mamba|micromamba", re.ASCII)
_AT = re.compile(
    r"(?P<name>[\w.-]+(?:\[[^\]]*\])?)@(?P<version>latest|[<>=!~^]*\d[^/:]*)", re.ASCII
)
_DEEPEST = 8

_BUILD_VARIABLE = re.compile(
    r"\w*(?:CUDA|NVCC|NVTE)\w*|CMAKE_ARGS|CMAKE_FLAGS|SKBUILD_CMAKE_ARGS", re.ASCII
)
_INDEX_VARIABLES = _names(
    """
    PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS UV_INDEX UV_DEFAULT_INDEX UV_INDEX_URL
    UV_EXTRA_INDEX_URL UV_FIND_LINKS PIPENV_PYPI_MIRROR PDM_PYPI_URL
    """
)


def parse(argv: Sequence[str]) -> Install | None:
    """What the command line would install; ``None`` where it is no installer's."""
    return _parse(list(argv), 0)


def entries(
    install: Install, where: str, text: str, *, fresh: bool = False, scope: str = ""
) -> Iterator[Entry]:
    """What the command asks for; nothing where it is harmless or only removes.

    ``text`` is the command as written. ``fresh`` is of the place that it runs in: a command that
    makes an environment of its own is fresh everywhere. An entry's flags are the command's, and
    ``--target``, ``--prefix`` or ``--root`` without its value; of uv's ``--upgrade``, which reaches
    what is only depended on, ``--upgrade-strategy=eager`` too.
    """
    if install.harmless or install.action.rpartition(" ")[2] in _REMOVES:
        return
    if _is_conda(install):
        text = without_token(text)
    own = fresh or _makes_its_own(install)
    elsewhere = install.target.partition("=")[0]
    flags = (*install.flags, elsewhere) if elsewhere in _ELSEWHERE else install.flags
    if install.tool == "uv" and "--upgrade" in flags:
        flags = (*flags, "--upgrade-strategy=eager")
    blank = Entry("option", where, shown(text), scope=scope, fresh=own, flags=flags)
    for name, value in install.variables:
        yield from variable_entries(name, value, where, text, fresh=blank.fresh, scope=scope)
    for requirement in install.requirements:
        yield _requirement(install, requirement, blank)
    for editable in install.editables:
        made = entry_of(editable, where, text=text, scope=scope, option="-e", editable=True)
        yield made._replace(fresh=blank.fresh, flags=blank.flags)
    yield from _of_options(install, blank)
    if install.command and (inner := parse(install.command)):
        yield from entries(inner, where, text, fresh=blank.fresh, scope=scope)


def _of_options(install: Install, blank: Entry) -> Iterator[Entry]:
    """Includes, indexes, channels, settings for the build."""
    file = "--file" if install.tool in _CONDA_LIKE else "-r"
    for path in install.files:
        yield blank._replace(kind="include", option=file, url=address(path))
    for path in install.constraints:
        yield blank._replace(kind="include", option="-c", url=address(path))
    for option, url in install.indexes:
        if option == "--channel":
            yield blank._replace(kind="channel", name=url)
        else:
            yield blank._replace(kind="index", option=option, url=address(url))
    for setting in install.settings:
        yield blank._replace(option="--config-settings", specifier=shown(setting))
    for flag in install.flags:
        if flag.startswith("--torch-backend="):
            url = torch_index(flag.partition("=")[2])
            yield blank._replace(kind="index", option="--torch-backend", url=url)


def variable_entries(
    name: str, value: str, where: str, text: str, *, fresh: bool = False, scope: str = ""
) -> Iterator[Entry]:
    """What an environment variable means for an install: a setting for CUDA, an index.

    Nothing for all other variables, and where ``CUDA_HOME`` is that of MUSA.
    """
    made = Entry("variable", where, shown(text), fresh=fresh, scope=scope)
    if name in _INDEX_VARIABLES:
        for url in value.split():
            yield made._replace(kind="index", option=name, url=_index_url(url))
    elif name == "UV_TORCH_BACKEND":
        yield made._replace(kind="index", option=name, url=torch_index(value))
    elif _BUILD_VARIABLE.fullmatch(name) and "musa" not in value.lower():
        yield made._replace(name=name, specifier=shown(value))


def _makes_its_own(install: Install) -> bool:
    """Whether the environment is not the one that a plain ``pip install`` would change."""
    if install.tool == "pip":
        return install.target.startswith("--target")
    if install.tool == "uv":
        if install.action.startswith("pip "):
            return install.target.startswith(("--target", "--prefix"))
        return install.action not in {"sync", "add", "run"} or not (
            {"--active", "--no-project"} & set(install.flags)
        )
    if install.tool == "pipenv":
        return "--system" not in install.flags
    return True


def _is_conda(install: Install) -> bool:
    if install.tool == "pixi":
        return "--pypi" not in install.flags
    return install.tool in _CONDA_LIKE


def _requirement(install: Install, requirement: str, blank: Entry) -> Entry:
    if _is_conda(install):
        made = spec_entry(requirement, blank.where, text=blank.text)
        return made._replace(scope=blank.scope, flags=blank.flags)
    asked = requirement
    if install.tool == "poetry" or install.action.startswith("tool "):
        asked = _at_version(requirement)
    made = entry_of(asked, blank.where, text=blank.text, fresh=blank.fresh)
    made = made._replace(scope=blank.scope, flags=blank.flags)
    if made.kind != "unreadable":
        return made
    reason = PLACEHOLDER if _PLACEHOLDER.search(requirement) else made.reason
    return made._replace(text=shown(requirement), reason=reason)


def _at_version(requirement: str) -> str:
    """``torch@^2.4`` and ``ruff@latest`` as PEP 508 has them."""
    found = _AT.fullmatch(requirement)
    if not found:
        return requirement
    version = "" if found["version"] == "latest" else pep440(found["version"])
    return f"{found['name']} {found['version'] if version is None else version}"


def _index_url(value: str) -> str:
    """The address of ``name=https://...``, as uv has it, or of the plain form."""
    name, given, url = value.partition("=")
    return address(url if given and re.fullmatch(r"[\w.-]+", name) else value)


def _parse(argv: list[str], depth: int) -> Install | None:
    start, variables = _after_prefixes(argv)
    if start >= len(argv) or depth > _DEEPEST:
        return None
    found = _tool_of(argv, start)
    if found is None:
        return None
    tool, python, begin = found
    rest = argv[begin:]
    if tool == "uvx":
        tool, rest = "uv", ["tool", "run", *rest]
    made = _of_tool(Install(tool, "", tuple(argv[:begin]), python), rest, depth)
    return made._replace(variables=(*variables, *made.variables))


def _after_prefixes(argv: list[str]) -> tuple[int, list[tuple[str, str]]]:
    """Where the command itself begins, and the assignments before it."""
    variables: list[tuple[str, str]] = []
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if assignment := _ASSIGNMENT.fullmatch(word):
            variables.append((assignment["name"], assignment["value"]))
        elif prefix := _PREFIXES.get(word.rpartition("/")[2]):
            if word == "command" and argv[index : index + 1] in (["-v"], ["-V"]):
                return len(argv), variables
            index = _after_prefix(argv, index, prefix)
        else:
            return index - 1, variables
    return index, variables


def _after_prefix(argv: list[str], index: int, prefix: tuple[str, int]) -> int:
    valued, own = prefix
    while index < len(argv) and argv[index].startswith("-"):
        word = argv[index]
        index += 1
        if word == "--":
            break
        if not word.startswith("--") and word[-1] in valued:
            index += 1
    return index + own


def _tool_of(argv: list[str], start: int) -> tuple[str, str, int] | None:
    """The tool, the interpreter that it names, and where its own words begin."""
    name = _base(argv[start])
    if _PYTHON.fullmatch(name):
        return _of_python(argv, start)
    if pip := _PIP_NAME.fullmatch(name):
        folder = argv[start].rpartition("/")[0]
        return "pip", f"{folder}/python{pip['version'] or '3'}" if folder else "", start + 1
    return (name, "", start + 1) if name in _TOOLS or name == "uvx" else None


def _base(word: str) -> str:
    """The program's name without folder and ``.exe``; of ``$PIP3`` and ``${PYTHON}`` as well."""
    name = word.rpartition("/")[2].rpartition("\\")[2].removesuffix(".exe")
    if "$" not in name:
        return name
    bare = name.strip("${}").lower().partition(":")[0]
    if "python" in bare:
        return "python"
    return next((part for part in bare.split("_") if _OF_VARIABLE.fullmatch(part)), name)


def _of_python(argv: list[str], start: int) -> tuple[str, str, int] | None:
    """``python -m pip``, with the options that Python may have before ``-m``."""
    index = start + 1
    while index < len(argv) and argv[index].startswith("-"):
        letters = argv[index][1:]
        index += 1
        before, m, module = letters.partition("m")
        if m and "c" not in before and not letters.startswith("-"):
            if not module:
                module = argv[index] if index < len(argv) else ""
                index += 1
            python = argv[start] if _base(argv[start]) != "py" else _of_launcher(argv[start:index])
            return (module, python, index) if module in _TOOLS else None
        if letters[-1:] in {"W", "X"}:
            index += 1
    return None


def _of_launcher(words: list[str]) -> str:
    """``python3.10`` of ``py -3.10 -m pip``."""
    versions = (word[1:] for word in words if re.fullmatch(r"-\d[\d.]*", word))
    return f"python{next(versions, '')}"


def _of_tool(install: Install, rest: list[str], depth: int) -> Install:
    """The command of a tool, from its first own word on."""
    about = _TOOLS[install.tool]
    general = _options(about.general, about.abbreviated)
    options: list[tuple[str, str]] = []
    unknown: list[str] = []
    action = ""
    for _ in range(2):
        scanned = _scan(rest, general, stop=True)
        options += scanned.options
        unknown += scanned.unknown
        action = " ".join(filter(None, (action, *scanned.rest[:1])))
        rest = scanned.rest[1:]
        if action not in about.nested:
            break
    action = _ALIASES.get((install.tool, action), action)
    install = install._replace(action=action)
    if action not in about.actions:
        return install._replace(harmless=True)
    runs = action.rpartition(" ")[2] in {"run", "exec"}
    scanned = _scan(rest, _options(about.actions[action], about.abbreviated), stop=runs)
    options += scanned.options
    unknown += scanned.unknown
    made = _filled(install, options, scanned.words)._replace(
        unknown=tuple(unknown), command=tuple(scanned.rest)
    )
    if not runs:
        return made
    if action == "tool run" and not any(option == "--from" for option, _ in options):
        return made._replace(requirements=(*scanned.rest[:1], *made.requirements))
    if install.tool not in _STARTS_ALONE:
        return made
    inner = _parse(scanned.rest, depth + 1)
    if inner is None:
        return made._replace(harmless=True)
    begun = tuple(rest[: len(rest) - len(scanned.rest)])
    return inner._replace(
        program=(*install.program, *action.split(), *begun, *inner.program),
        target=inner.target or made.target,
    )


def _filled(install: Install, options: list[tuple[str, str]], words: list[str]) -> Install:
    """The fields that options and words give."""
    about = _TOOLS[install.tool]
    for option, value in list(options):
        if option in {"--extra-pip-args", "--pip-args"}:
            options += _scan(value.split(), _options(_PIP, abbreviated=True), stop=False).options

    def of(*names: str) -> tuple[str, ...]:
        return tuple(value for option, value in options if option in names and value)

    requirements = (*words, *of("--with", "--from", "--spec", "--preinstall"))
    if install.tool == "poetry":
        requirements = tuple(words)
    editables = of("--editable", "--with-editable")
    files = of("--requirement", "--with-requirements", "--file")
    if install.action == "pip sync":
        requirements, files = (), (*words, *files)
    elif ("--editable", "") in options:
        requirements, editables = requirements[len(words) :], (*words, *editables)
    names = {option for option, _ in options}
    harmless = _HARMLESS | about.harmless.get(install.action, frozenset())
    target = [
        f"{option}={value}"
        for option, value in options
        if option in _ELSEWHERE | {"--name"} and value
    ]
    return install._replace(
        python=next(iter(of("--python")[-1:]), install.python),
        target=target[-1] if target else "--user" if "--user" in names else "",
        project=next(iter(of("--project", "--directory", "--manifest-path")[-1:]), ""),
        requirements=requirements,
        editables=editables,
        files=files,
        constraints=of("--constraint", "--override"),
        indexes=tuple(
            (option, channel_name(value) if option == "--channel" else _index_url(value))
            for option, value in options
            if option in _INDEXES and value
        ),
        flags=_flags(install.action, options),
        settings=of("--config-settings", "--global-option", "--build-option", "--install-option"),
        harmless=bool(names & harmless),
    )


def _flags(action: str, options: list[tuple[str, str]]) -> tuple[str, ...]:
    flags: list[str] = ["--upgrade"] if action in _UPDATES else []
    for option, value in options:
        if option in _UNDOES:
            flags = [flag for flag in flags if flag != _UNDOES[option]]
        elif option in _KEPT:
            flag = f"{option}={value}" if value else option
            flags += [flag] if flag not in flags else []
    return tuple(flags)


@cache
def _options(table: str, abbreviated: bool) -> _Options:  # noqa: FBT001 - a cached pair
    values: dict[str, str] = {}
    flags: dict[str, str] = {}
    for item in table.split():
        names = item.removesuffix("=").split(",")
        for name in names:
            (values if item.endswith("=") else flags)[name] = names[0]
    return _Options(values, flags, abbreviated)


def _scan(words: list[str], known: _Options, *, stop: bool) -> _Scanned:
    """Options and words apart; with ``stop`` only as far as the first word."""
    found = _Scanned([], [], [], [])
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            (found.rest if stop else found.words).extend(words[index:])
            break
        if word.startswith("--"):
            needs = _long(word, known, found)
        elif word.startswith("-") and len(word) > 1:
            needs = _short(word, known, found)
        elif stop:
            found.rest.extend(words[index - 1 :])
            break
        else:
            found.words.append(word)
            continue
        if needs:
            found.options.append((needs, words[index] if index < len(words) else ""))
            index += 1
    return found


def _long(word: str, known: _Options, found: _Scanned) -> str:
    """Note the option; its name where its value is the next word."""
    name, given, value = word.partition("=")
    if name not in known.values and name not in known.flags and known.abbreviated:
        full = {
            table[option]
            for table in (known.values, known.flags)
            for option in table
            if option.startswith(name)
        }
        name = full.pop() if len(full) == 1 else name
    if name in known.values:
        if not given:
            return known.values[name]
        found.options.append((known.values[name], value))
    elif name in known.flags:
        found.options.append((known.flags[name], ""))
    else:
        found.unknown.append(name)
    return ""


def _short(word: str, known: _Options, found: _Scanned) -> str:
    """Note the options of a cluster; the last one's name where its value is the next word."""
    for index, letter in enumerate(word[1:], 2):
        name = f"-{letter}"
        if name in known.values:
            value = word[index:].removeprefix("=")
            if not value:
                return known.values[name]
            found.options.append((known.values[name], value))
            return ""
        if name not in known.flags:
            found.unknown.append(word)
            return ""
        found.options.append((known.flags[name], ""))
    return ""
