"""Harmless words for the programs that build, test, check and install."""

PYTHON = r"""
pytest, py.test: -vqxslhV -k= -m= -n=name -r= -W=warning --verbose --quiet --verbosity --exitfirst
  --maxfail= --lf --last-failed --ff --failed-first --nf --new-first --sw --stepwise
  --stepwise-skip --lfnf --last-failed-no-failures --collect-only --co --tb --show-capture
  --showlocals --no-showlocals --no-header --no-summary --durations= --durations-min= --color
  --code-highlight --capture --runxfail --strict-markers --strict-config --strict --fixtures
  --fixtures-per-test --markers --setup-show --setup-only --setup-plan --version --help
  --dist=name --numprocesses=name --maxprocesses= --timeout= --timeout-method=name --cov
  --no-cov --cov-branch --cov-append --cov-fail-under= --cov-report=covreport --cov-context=name
  --junitxml=write --junit-xml=write --benchmark-only --benchmark-skip --benchmark-disable
  --reruns= --reruns-delay= --count= --random-order --randomly-seed= --snapshot-update
  --full-trace --ignore=inside --ignore-glob= --deselect= --keep-duplicates --log-level=name
  --log-cli-level=name --disable-warnings --disable-pytest-warnings --doctest-modules
  --doctest-glob= --asyncio-mode=name --nbval --hypothesis-show-statistics --hypothesis-seed=
  --run-slow --runslow --slow --xfail-tb --force-short-summary --testmon *inside
unittest: -vqfcbk= --verbose --quiet --failfast --catch --buffer --locals *inside
unittest discover: -vqfcbk= -s=inside -p= -t=inside --verbose --quiet --failfast --catch --buffer
  --start-directory=inside --pattern= --top-level-directory=inside --locals *inside
coverage: --version --help
coverage report: -mi --show-missing --skip-covered --skip-empty --fail-under= --include= --omit=
  --precision= --sort= --ignore-errors --format= *
coverage combine, coverage erase: -aq --append --keep --quiet
coverage html: -iq --show-contexts --skip-covered -d=write --directory=write --fail-under=
coverage xml, coverage json, coverage lcov: -iq -o=write --fail-under= --quiet --pretty-print
mypy: -vhVis -p= -m= --verbose --version --help --strict --no-incremental --ignore-missing-imports
  --follow-imports --show-error-codes --hide-error-codes --pretty --no-pretty --no-error-summary
  --show-error-context --show-column-numbers --show-absolute-path --show-traceback
  --warn-unused-ignores --warn-return-any --warn-unreachable --warn-redundant-casts
  --warn-unused-configs --disallow-untyped-defs --disallow-any-generics --disallow-untyped-calls
  --disallow-incomplete-defs --disallow-any-explicit --check-untyped-defs --no-implicit-optional
  --no-implicit-reexport --strict-equality --strict-optional --namespace-packages
  --explicit-package-bases --exclude= --package= --module= --python-version= --platform=
  --skip-version-check --skip-cache-mtime-checks --enable-error-code= --disable-error-code=
  --color-output --no-color-output --non-interactive --scripts-are-modules --allow-redefinition
  --output= --tb --stats --dump-type-stats *
dmypy: --help
ruff: -hV --version --help
ruff check: -qvswe --quiet --verbose --silent --watch --select= --ignore= --extend-select=
  --extend-ignore= --output-format= --statistics --show-files --show-settings --diff --exit-zero
  --no-cache --isolated --target-version= --preview --no-preview --exclude= --extend-exclude=
  --respect-gitignore --no-respect-gitignore --force-exclude --no-fix --no-fix-only --line-length=
  --exit-non-zero-on-fix --exit-non-zero-on-format --stdin-filename= --per-file-ignores= --color=
  *
ruff format: -qvs --quiet --verbose --silent --check --diff --no-cache --isolated --line-length=
  --target-version= --preview --exclude= --respect-gitignore --force-exclude --range= --color=
  --stdin-filename= *write
ruff rule, ruff linter, ruff version, ruff config: --all --output-format= *name
black: -qvSCl= --check --diff --color --no-color --fast --safe --quiet --verbose --line-length=
  -t= --target-version= --skip-string-normalization --skip-magic-trailing-comma --preview
  --unstable --include= --exclude= --extend-exclude= --force-exclude= --workers= -W= --version
  *write
isort: -cvqdl= -w= --check --check-only --diff --quiet --verbose --profile=name --line-length=
  --color --version --show-files --only-modified --filter-files --skip= --skip-glob= *write
flake8: -vqh --select= --ignore= --extend-select= --extend-ignore= --max-line-length=
  --max-complexity= --statistics --count --show-source --exclude= --extend-exclude= --filename=
  --per-file-ignores= --format=name --exit-zero --benchmark --color= --jobs= -j= --version *
pylint: -hEdej= -d= -e= -r= -f=name --disable= --enable= --errors-only --reports= --score=
  --output-format=name --max-line-length= --jobs= --ignore= --ignore-patterns= --fail-under=
  --list-msgs --version --help --py-version= --recursive= --persistent= *
bandit: -rqvlia -f=name -x= -s= -t= -n= --recursive --quiet --verbose --exclude= --skip= --tests=
  --severity-level= --confidence-level= --format=name --ini= --exit-zero --version *
pyright, basedpyright: -h --stats --verbose --warnings --outputjson --level= --pythonversion=
  --pythonplatform= --skipunannotated --dependencies --version *
ty check: -qv --quiet --verbose --output-format= --exit-zero --error= --warn= --ignore= *
vulture: -hv --min-confidence= --exclude= --ignore-names= --ignore-decorators= --sort-by-size *
tox: -qvpre= --quiet --verbose --parallel --recreate --list --listenvs -l -a --listenvs-all
  --skip-missing-interpreters --skip-pkg-install --version --colored= -- *inside
tox run, tox list, tox run-parallel, tox r, tox p, tox l: -qvpre= --quiet --verbose --recreate
  --skip-pkg-install --skip-missing-interpreters -- *inside
nox: -lrRhN -s= -e= -k= -t= -p= --list --sessions= --session= --keywords= --tags= --python=
  --pythons= --reuse-existing-virtualenvs --no-reuse-existing-virtualenvs --stop-on-first-error
  --no-venv --no-install --version --error-on-missing-interpreters --list-sessions -- *inside
pre-commit: --version
pre-commit run: -av --all-files --verbose --files --show-diff-on-failure --color= --from-ref=
  --to-ref= --hook-stage= *
sphinx-build: -qvWnETaj= -b=name *inside,write,inside
mkdocs build: -qvsc --strict --clean --dirty --quiet --verbose
pip, pip3: -Vh --version --help
pip install, pip3 install, uv pip install: -qvUr=requirements -c=requirements -e=project --quiet
  --verbose --upgrade --upgrade-strategy= --no-deps --no-cache-dir --no-cache --user --pre
  --requirement=requirements --constraint=requirements --editable=project --force-reinstall
  --ignore-installed --no-input --disable-pip-version-check --no-warn-script-location --dry-run
  --only-binary= --prefer-binary --require-hashes --progress-bar= --system --break-system-packages
  --root-user-action= --no-build-isolation --offline --reinstall *package
pip uninstall, pip3 uninstall, uv pip uninstall: -qvyr=requirements --yes --quiet --verbose
  *package
pip list, pip3 list, uv pip list: -qvoul --outdated --uptodate --editable --local --user --pre
  --format= --not-required --exclude= --quiet --verbose --disable-pip-version-check
pip show, pip3 show, uv pip show: -qvf --files --verbose --quiet *package
pip freeze, pip3 freeze, uv pip freeze: -ql --local --user --all --exclude-editable --exclude=
pip check, pip3 check, uv pip check, uv pip tree: -qv --quiet --verbose --depth=
pip index versions, pip3 index versions: --pre *package
uv: -qvhV --version --help --quiet --verbose --offline --no-progress
uv sync: -qvnU --frozen --locked --all-extras --extra= --no-dev --dev --only-dev --group=
  --no-group= --all-groups --only-group= --no-install-project --no-install-workspace --inexact
  --exact --quiet --verbose --upgrade --dry-run --check --all-packages --package= --no-editable
  --compile-bytecode --offline --no-progress --active
uv lock: -qvU --check --locked --frozen --dry-run --upgrade --upgrade-package= --quiet --offline
uv add, uv remove: -qv --dev --group= --optional= --extra= --frozen --locked --no-sync --quiet
  *package
uv tree: -qv --depth= --prune= --package= --no-dedupe --invert --outdated --frozen --locked
uv build: -qv --wheel --sdist --all-packages --quiet -o=write --out-dir=write --no-build-logs
uv export: -qv --format= --no-dev --all-extras --no-hashes --frozen --locked -o=write
  --output-file=write --no-emit-project --group= --extra=
uv python list, uv python find, uv version, uv tool list, uv cache dir: --short --offline
  --only-installed --all-versions --output-format= *name
uv pip: -qv
poetry: -qvnV --version --no-interaction --quiet --verbose --no-ansi
poetry install, poetry update, poetry lock, poetry check, poetry show, poetry env info, poetry
  version, poetry build: -qvntlaoT --no-root --sync --all-extras --only= --with= --without= -E=
  --extras= --no-interaction --quiet --verbose --dry-run --tree --latest --outdated --no-update
  --lock --all --short --no-dev --no-ansi --strict *package
poetry add, poetry remove: -qvnDG= --group= --dev --optional --dry-run --no-interaction *package
pdm install, pdm sync, pdm lock, pdm list, hatch env show, hatch version, pipenv install, pipenv
  sync, rye sync, rye lock: -qvdGh --dev --no-lock --check --quiet --verbose --prod
make, gmake: -bdknqstwBiSRrvlj? -# --dry-run --just-print --question --silent --quiet --keep-going
  --always-make --jobs --print-data-base --no-print-directory --print-directory --trace --version
  --help --ignore-errors --no-builtin-rules --warn-undefined-variables --output-sync
  --load-average --touch --no-builtin-variables --shuffle --debug *target
ninja: -nvk=name -j=name -l=name -d=name -t=list --verbose --quiet --version *target
cmake: -vhj? -G= -S=inside -B=write --version --help --build=inside --target=name --config=name
  -t=name --parallel --verbose --preset=name --list-presets --clean-first --fresh
  /-DCMAKE_BUILD_TYPE=[A-Za-z]+/ /-D[A-Z_]*(BUILD|ENABLE|WITH|USE)[A-Z_]*=(ON|OFF|0|1)/ *inside --
ctest: -VQNFj= -R= -E= -L= -C= --verbose --extra-verbose --output-on-failure --parallel=
  --tests-regex= --exclude-regex= --label-regex= --rerun-failed --stop-on-failure --timeout=
  --repeat= --no-tests= --progress --quiet --show-only
just: -lnqvs --list --summary --dry-run --quiet --verbose --show= --evaluate --dump --color=
  *target
task, rake: -lnpqstTAvNP --list --list-all --dry --summary --silent --verbose --tasks --quiet
  --dry-run --trace --parallel *target
bazel: --version
bazel build, bazel test, bazel query: -kc=name -j=name --config=name --test_output=name
  --test_filter= --keep_going --jobs=name --verbose_failures --test_timeout= --output=name *
gcc, g++, cc, c++, clang, clang++: one-dash -c -S -E -v -w -shared -static -static-libgcc
  -static-libstdc++ -pthread -pipe -pedantic -pedantic-errors -ansi -rdynamic -nostdlib -nostdinc
  -nodefaultlibs -MD -MMD -MP -M -MM -x= -o=write -I= -D= -U= -L= -l= -isystem= -iquote=
  -idirafter= -include=inside -MT= -MQ= -version -help -print-search-dirs -fsyntax-only
  -framework= -arch=name /-O[0-3sgz]?(fast)?/ /-g[0-3]?/ /-ggdb[0-3]?/ /-gdwarf(-[0-9])?/
  /-std=[a-z0-9+:]+/ /-D\w[^,]*/ /-U\w+/ /-[IL][^@]+/ /-l[\w.+-]+/ /-W(?![lap],)[a-z0-9+=-]*/
  /-Wno-[a-z0-9+=-]+/ /-m[a-z0-9=.+-]+/
  /-f(no-)?(pic|PIC|pie|PIE|common|exceptions|rtti|inline|builtin|lto|openmp)/
  /-f(no-)?(strict-aliasing|omit-frame-pointer|unroll-loops|fast-math|wrapv|trapv|permissive)/
  /-f(no-)?(function-sections|data-sections|short-enums|short-wchar|signed-char|unsigned-char)/
  /-f(no-)?(stack-protector(-all|-strong)?|visibility-inlines-hidden|color-diagnostics)/
  /-f(visibility|sanitize|diagnostics-color|max-errors|message-length|cf-protection)=[a-z0-9,-]+/
  *inside
javac, kotlinc, scalac, swiftc, ghc, ocamlc, rustc: --version -version --help
java: one-dash -version --version -help
python -m json.tool: --indent= --sort-keys --compact --no-ensure-ascii --tab --json-lines
  *any,write
python -m venv: --clear --upgrade --system-site-packages --without-pip --prompt= *write
python -m http.server: -b= -d=inside --bind= --directory=inside *number
python -m compileall, python -m py_compile, python -m doctest, python -m tabnanny: -qvfl *inside
python -m build: -nwsx --wheel --sdist --no-isolation --skip-dependency-check -o=write
  --outdir=write *inside
python -m cProfile, python -m profile, python -m pdb, python -m trace, python -m timeit, python -m
  runpy, python -m zipapp, python -m zipfile, python -m tarfile, python -m ensurepip, python -m
  webbrowser, python -m pydoc, python -m code, python -m this: --help
"""

OTHERS = r"""
@scripts: --coverage --watch --watchAll --run --silent --verbose --ci --bail --runInBand
  --no-coverage --passWithNoTests --updateSnapshot --testNamePattern= --testPathPattern= -t= -i -b
  -u --reporter=name --grep= --max-warnings= --quiet --color --no-color --maxWorkers= --noEmit
  --check --headless --single-run --bail= --forceExit --detectOpenHandles --changed --list
  --dry-run at *
@npm: -dqs --silent --quiet --verbose --loglevel --no-audit --no-fund --prefer-offline --offline
  --no-progress --progress=name --json --if-present --ignore-scripts --no-save --color --no-color
  --timing --no-update-notifier --foreground-scripts
npm, pnpm, yarn: -vhs --version --help --silent
npm test, npm t, npm start, npm run, npm run-script: @npm at * -- @scripts
npm ci, npm clean-install: @npm -- at
npm install, npm i, npm add, npm uninstall, npm remove, npm update, npm dedupe: @npm -DES --save
  --save-dev --save-exact --save-optional --save-peer --omit= --include= --legacy-peer-deps
  --force --package-lock-only --no-package-lock --strict-peer-deps at *package
npm ls, npm list, npm outdated, npm view, npm info, npm audit, npm why, npm explain, npm ping, npm
  search, npm version, npm docs, npm root, npm prefix, npm whoami, npm fund: @npm -al --all
  --depth= --long --omit= --production --audit-level= --parseable at *package
npm pack: @npm --dry-run
npm config get, npm config list: @npm *name
pnpm test, pnpm run, pnpm t, pnpm start, pnpm lint, pnpm build, pnpm typecheck, pnpm format, yarn
  test, yarn run, yarn start, yarn lint, yarn build, yarn typecheck, yarn check, bun test, bun
  run: @npm @scripts at * -- @scripts
pnpm install, pnpm i, pnpm add, pnpm remove, pnpm update, pnpm ls, pnpm list, pnpm outdated, pnpm
  why, pnpm audit, yarn install, yarn add, yarn remove, yarn upgrade, yarn list, yarn why, yarn
  outdated, yarn info, bun install, bun add, bun remove: @npm -DEPOar --save-dev --save-exact
  --save-prod --dev --exact --production --prod --frozen-lockfile --immutable --no-frozen-lockfile
  --prefer-frozen-lockfile --lockfile-only --recursive --depth= --force --pure-lockfile at
  *package
eslint: -hv --ext= --quiet --max-warnings= --color --no-color --cache
  --no-error-on-unmatched-pattern --report-unused-disable-directives --ignore-pattern= --no-ignore
  --debug --version --env-info --print-config= --fix-dry-run --exit-on-fatal-error
  --pass-on-no-patterns --no-inline-config --no-warn-ignored --stats --help --format=formatter
  -f=formatter *
prettier: -hclu --check --list-different --ignore-unknown --no-config --log-level=name
  --loglevel=name --no-error-on-unmatched-pattern --version --no-color --color --cache
  --find-config-path= --file-info= --support-info --no-editorconfig --single-quote --tab-width=
  --print-width= --stdin-filepath= --debug-check *
biome check, biome lint, biome format, biome ci: --max-diagnostics= --diagnostic-level=name
  --colors=name --reporter=name --no-errors-on-unmatched --files-ignore-unknown= --changed
  --staged --verbose *
tsc, vue-tsc: -hvw --noEmit --pretty --strict --skipLibCheck --version --help --watch --listFiles
  --traceResolution --diagnostics --extendedDiagnostics --showConfig --explainFiles --incremental
  --noUnusedLocals --noUnusedParameters --noImplicitAny --target=name --module=name
  --moduleResolution=name --jsx=name --lib=name --preserveWatchOutput *inside --
jest: -hvbiotuw= --coverage --ci --bail --runInBand --silent --verbose --watch --watchAll
  --no-cache --passWithNoTests --updateSnapshot --testNamePattern= --testPathPattern=
  --testPathPatterns= --maxWorkers= --onlyChanged --onlyFailures --findRelatedTests --listTests
  --showConfig --forceExit --detectOpenHandles --json --clearMocks --colors --no-coverage --expand
  --logHeapUsage --errorOnDeprecated --testTimeout= --randomize --seed= --shard=
  --collectCoverageFrom= --version *
vitest, vitest run, vitest watch, vitest list, vitest related: -hvtu --run --watch --coverage
  --reporter=name --silent --bail= --retry= --testNamePattern= --passWithNoTests --update
  --no-color --hideSkippedTests --changed --shard= --sequence.seed= --typecheck --maxWorkers=
  --minWorkers= --pool=name --isolate --globals --environment=name --project=name --allowOnly
  --logHeapUsage --testTimeout= --hookTimeout= --version *
mocha: -hbcg= -f= -t= -s= -j= -R=name --bail --grep= --fgrep= --timeout= --slow= --recursive
  --reporter=name --exit --no-exit --color --parallel --jobs= --forbid-only --forbid-pending
  --dry-run --retries= --full-trace --check-leaks --invert *inside
playwright test: -hxg= --headed --grep= --grep-invert= --project=name --reporter=name --workers=
  --retries= --timeout= --list --last-failed --max-failures= --quiet --repeat-each=
  --update-snapshots --debug --only-changed --pass-with-no-tests --shard= *inside
cargo: -Vqv --version --list --quiet --verbose --offline --locked --frozen
@cargo: -qvj= -p= -F= --release --all --workspace --exclude= --all-targets --all-features
  --features= --no-default-features --package= --lib --bin= --bins --test= --tests --example=
  --examples --bench= --benches --doc --no-run --no-fail-fast --jobs= --locked --frozen --offline
  --message-format= --color= --profile=name --target=name --quiet --verbose --keep-going
  --ignore-rust-version --timings
cargo build, cargo b, cargo check, cargo c, cargo doc, cargo fetch: @cargo --no-deps
  --document-private-items
cargo test, cargo t, cargo bench, cargo nextest run: @cargo -E= --retries= *name -- -q --nocapture
  --no-capture --test-threads= --ignored --include-ignored --exact --skip= --show-output --quiet
  --list --color= *name
cargo run, cargo r: @cargo * -- any
cargo clippy: @cargo --no-deps -- -D= -W= -A= -F= --deny= --warn= --allow=
cargo fmt: -qv --all --check --quiet --verbose -p= --package= -- --check --color= --edition=
cargo tree, cargo metadata, cargo pkgid, cargo search, cargo info, cargo audit, cargo outdated,
  cargo update, cargo clean, cargo add, cargo remove, cargo version, cargo verify-project:
  -qvie=name -p= -F= --depth= --invert= --duplicates --format-version= --no-deps --all-features
  --features= --workspace --package= --dry-run --locked --frozen --offline --edges= --prefix=
  --dev --build --no-default-features --release --limit= --precise= --quiet --verbose --color=
  *package
@go: one-dash -v -x -n -a -race -msan -asan -work -cover -short -failfast -json -list= -run=
  -skip= -count= -timeout= -parallel= -p= -cpu= -bench= -benchmem -benchtime= -tags= -trimpath
  -buildvcs= -mod=name -covermode=name -coverpkg= -shuffle= -vet=name -fullpath -buildmode=name
go version, go help, go list, go doc: one-dash -m -e -f= -json -deps -test -u -versions -v -all -c
  -cmd -short -src -find -mod=name -tags= at *
go test: @go -coverprofile=write -cpuprofile=write -memprofile=write -blockprofile=write
  -mutexprofile=write -trace=write -o=write -c at *inside
go build, go vet, go install: @go -o=write at *inside
go fmt, go generate: one-dash -n -x -v -run= -skip= *inside
go run: @go at *rest
go mod tidy, go mod download, go mod verify, go mod why, go mod graph, go mod vendor: one-dash -v
  -x -e -m -json -compat= -vendor at *
go env: one-dash -json -changed *name
go get: one-dash -v -u -t -x at *package
gofmt, goimports, gofumpt: -dles *write
golangci-lint run: -vE= -D= --enable= --disable= --timeout= --fast --verbose --new --new-from-rev=
  --max-issues-per-linter= --max-same-issues= --color= *
staticcheck: one-dash -checks= -tests -f=name -version -explain= *
mvn, mvnw: one-dash -q -o -e -X -U -B -N -V -T= -v --quiet --offline --errors --batch-mode
  --update-snapshots --non-recursive --no-transfer-progress -ntp -pl= -am -amd -fae -ff
  --fail-fast --fail-at-end -P=name --version
  /-D(skipTests|test=[\w.#*,]+|skipITs|maven\.test\.skip=(true|false))/ *target
gradle, gradlew: -qisdwm --quiet --info --stacktrace --debug --warn --offline --continue --dry-run
  --no-daemon --daemon --parallel --build-cache --no-build-cache --rerun-tasks --tests=
  --console=name --warning-mode=name --refresh-dependencies -x=name --exclude-task=name --version
  *target --
sbt: -v --version *target
dotnet: --version --info --list-sdks --list-runtimes
dotnet build, dotnet test, dotnet restore, dotnet clean, dotnet list, dotnet format, dotnet
  publish: -c=name -f=name -v=name -r=name --configuration=name --framework=name --verbosity=name
  --no-build --no-restore --no-incremental --nologo --filter= --blame --list-tests --runtime=name
  --verify-no-changes --self-contained --no-dependencies *inside --
rspec: -bcwXfpe= -t= -P= --color --no-color --fail-fast --format=name --example= --tag= --profile
  --order= --seed= --only-failures --next-failure --backtrace --dry-run --warnings --version
  *inside
rubocop: -lxDES -f=name --format=name --only= --except= --lint --parallel --no-parallel
  --display-cop-names --fail-level= --display-only-fail-level-offenses --fail-fast --version
  --force-exclusion *
bundle: --version
bundle install, bundle check, bundle list, bundle show, bundle outdated, bundle info: --quiet
  --jobs= --retry= --local --deployment --frozen --verbose *name
gem list, gem search, gem info, gem which, gem env: -lrad --local --remote --all --versions *name
rails test, rails routes, rails about, rails stats: -vfbe= -n= -s= --verbose --fail-fast
  --backtrace --defer-output --name= --seed= -c= -g= --expanded *inside
composer: -qvnV --version --quiet --no-interaction --no-ansi
composer install, composer update, composer show, composer validate, composer outdated, composer
  require, composer remove, composer dump-autoload, composer audit, composer why: -qvnotDiWwo
  --no-interaction --quiet --prefer-dist --prefer-stable --no-progress --no-dev --dev --no-scripts
  --optimize-autoloader --strict --tree --latest --direct --outdated --dry-run --format=name
  --no-plugins --ignore-platform-reqs --with-all-dependencies *package
phpunit: -v --filter= --group= --exclude-group= --testsuite=name --testdox --stop-on-failure
  --stop-on-error --no-coverage --colors= --debug --list-tests --order-by=name --no-progress
  *inside
phpstan analyse, phpstan analyze: -qvnl= --level= --memory-limit= --no-progress --no-interaction
  --error-format=name --debug *
shellcheck: -axCf=name -s=name -e= -i= -o= -S=name --format=name --severity=name --exclude=
  --include= --shell=name --color --check-sourced --external-sources *
hadolint, actionlint, yamllint, markdownlint, codespell, typos: -qsv --version --strict --color
  --no-color --format=name -f=name *
swift build, swift test: -vqc=name -j= --verbose --quiet --configuration=name --filter= --skip=
  --parallel --enable-code-coverage --list-tests
mix test, mix compile, mix format, mix deps.get, mix credo, mix dialyzer: --trace --seed= --stale
  --failed --only= --exclude= --include= --cover --max-failures= --warnings-as-errors --force
  --check-formatted --dry-run --color --slowest= --strict *inside
flutter test, flutter analyze, dart test, dart analyze, dart format: -vrnjx= --reporter=name
  --name= --tags= --coverage --no-pub --verbose --concurrency= --fatal-infos --fatal-warnings
  --set-exit-if-changed -o=name --output=name *inside
terraform: -version
terraform plan, terraform validate, terraform fmt, terraform show, terraform version: one-dash
  -no-color -json -check -diff -recursive -detailed-exitcode -refresh-only -compact-warnings
  -lock=name *inside
"""
