"""Harmless words for the programs that look at files and text, and for those that change files."""

TEXT = r"""
basename, cal, cat, cksum, cmp, comm, cut, df, diff, dirname, du, echo, egrep, expand, expr,
  false, fgrep, fold, fmt, free, getconf, grep, groups, head, hexdump, id, jq, join, ls, lsof,
  md5sum, nl, nproc, numfmt, od, paste, pgrep, printenv, ps, pwd, readlink, realpath, rev, seq,
  sha1sum, sha224sum, sha256sum, sha384sum, sha512sum, b2sum, sleep, stat, sum, tac, tail, tr,
  true, tsort, tty, uname, unexpand, uptime, users, vdir, dir, wc, whereis, which, who, whoami,
  yes, zcat, arch, logname, pathchk, pstree, lsblk, lscpu: any
base64, base32: -diw= --decode --wrap --ignore-garbage *
column: -txenJ -c= -s= -o= -N= -R= -T= -H= --table --separator --output-separator --json *
hostname: -fisdAI --fqdn --short --domain --all-fqdns --ip-address
date: -uRI? -d= -r= --date --utc --universal --iso-8601 --rfc-3339 --rfc-email --reference *date
printf: *
test, [: one-dash -a -b -c -d -e -f -g -h -k -L -n -N -o -O -p -r -s -S -t -u -w -x -z -G -eq -ne
  -lt -le -gt -ge -nt -ot -ef *
sort: -bcCdfghimMnrRsuVz -k= -t= -S= --key= --field-separator= --reverse --unique --numeric-sort
  --general-numeric-sort --human-numeric-sort --version-sort --random-sort --ignore-case
  --ignore-leading-blanks --ignore-nonprinting --dictionary-order --month-sort --check --merge
  --stable --zero-terminated --parallel --buffer-size --sort --debug *
uniq: -cdDuiz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields --skip-chars
  --check-chars --zero-terminated --all-repeated --group *any,none
shuf: -ezr -i= -n= --echo --input-range --head-count --repeat --zero-terminated *
iconv: -lcsf= -t= --from-code --to-code --list --silent *
tree: -adfghilnpqrstuvxACDFJNQSUX -L= -P= -I= --du --dirsfirst --gitignore --noreport --prune
  --charset --filelimit --sort --matchdirs --ignore-case --inodes --device --info *
less, more: -NSRFXniIMmEegGqQrsuw -# --RAW-CONTROL-CHARS --quit-if-one-screen --no-init
  --chop-long-lines --LINE-NUMBERS --ignore-case *plain
man: -kfwa -s= -S= --apropos --whatis --where --all *dotted
file: -bikLhnrsv0zNp -e= -F= -P= --brief --mime --mime-type --mime-encoding --dereference
  --no-dereference --extension --keep-going --raw *
strings: -an= -t= -e= -fwo -# --all --bytes --radix --print-file-name --encoding *
nm: -aACDgopnrSsuvfl --demangle --dynamic --extern-only --defined-only --undefined-only
  --line-numbers --numeric-sort --no-sort --print-size --size-sort --reverse-sort --print-armap
  --radix --format --print-file-name --debug-syms *
objdump: -adDfghprRsStTxlwzC --archive-headers --disassemble --disassemble-all --demangle
  --file-headers --section-headers --headers --full-contents --reloc --dynamic-reloc --syms
  --dynamic-syms --source --line-numbers --all-headers --no-show-raw-insn --wide --private-headers
  -j= -M= -b= -m= --section --start-address --stop-address --visualize-jumps *
readelf: -ahlSsdrnVDWIeg --all --file-header --program-headers --sections --symbols --dynamic
  --relocs --notes --version-info --wide --segments --section-headers *
size: -ABdoxt --format --radix --totals *
ar: *artable,any
xxd: -abeiupCE -c= -g= -l= -o= -s= *any,none
rg: -aciFHhILlNnoPqsSuUvwx0p -A= -B= -C= -e= -g= -m= -t= -T= -M= -d= -r= -j= --after-context
  --before-context --context --byte-offset --case-sensitive --ignore-case --smart-case --color
  --colors --column --count --count-matches --crlf --fixed-strings --files --files-with-matches
  --files-without-match --glob --iglob --heading --no-heading --hidden --invert-match --json
  --line-number --no-line-number --line-regexp --max-columns --max-count --max-depth
  --max-filesize --multiline --multiline-dotall --no-filename --with-filename --no-ignore
  --no-ignore-vcs --no-messages --null --one-file-system --only-matching --passthru --pcre2
  --pretty --quiet --regexp --replace --sort --sortr --stats --text --threads --trim --type
  --type-not --type-list --unrestricted --vimgrep --word-regexp --no-config --follow -L
  --auto-hybrid-regex --engine --encoding --no-unicode --field-match-separator --include-zero *
ag: -aciflLnrsuvwzHQ -A= -B= -C= -G= -m= --after --before --context --count --files-with-matches
  --files-without-matches --hidden --ignore --ignore-case --invert-match --literal --nocolor
  --nogroup --nofilename --nonumbers --smart-case --word-regexp --depth --vimgrep *
ack: -ciflLnrsvwHhQ -A= -B= -C= -m= --after-context --before-context --context --count --nocolor
  --nogroup --ignore-case --literal --smart-case --type --word-regexp --files-with-matches *
bat: -nApr= -H= -l= --plain --number --line-range --language --style --color --decorations
  --show-all --highlight-line --wrap --tabs --theme --paging=name *
fd, fdfind: -HIuaslgip0LF -d= -t= -e= -E= -S= -c= -j= --hidden --no-ignore --no-ignore-vcs
  --unrestricted --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path
  --list-details --follow --full-path --max-depth --min-depth --exact-depth --type --extension
  --exclude --size --changed-within --changed-before --max-results --print0 --prune --color
  --threads --quiet --show-errors --strip-cwd-prefix --and *
find: one-dash -H -L -P -O0 -O1 -O2 -O3 -name -iname -path -ipath -wholename -iwholename -regex
  -iregex -regextype -type -xtype -maxdepth -mindepth -depth -d -mount -xdev -daystart -follow
  -newer -newermt -newerXY -anewer -cnewer -mtime -atime -ctime -mmin -amin -cmin -size -empty
  -perm -user -group -uid -gid -nouser -nogroup -links -inum -samefile -lname -ilname -readable
  -writable -executable -true -false -prune -quit -print -print0 -printf -ls -o -or -a -and -not
  -ignore_readdir_race -noleaf -used -fstype -warn -nowarn /-[0-9]+[a-zA-Z]*/
  /-[ugoa]*[+=]?[rwxst]+/ *
awk, gawk, mawk, nawk, original-awk: -F= -v= *awk,any
yq: -rCMNPejo= -p= -I= --raw-output --unwrapScalar --colors --no-colors --output-format
  --input-format --prettyPrint --exit-status --no-doc --indent --null-input -n *
diff3: -AeEmTx3aXi -L= --show-all --ed --merge --text --initial-tab --label --easy-only
  --overlap-only --strip-trailing-cr *
sdiff: -iEZbWBalstd -I= -w= --ignore-case --ignore-all-space --ignore-space-change
  --ignore-blank-lines --text --width --left-column --suppress-common-lines --expand-tabs
  --minimal --strip-trailing-cr *
split: -dxuez -a= -b= -C= -l= -n= -t= -# --bytes --lines --line-bytes --number --suffix-length
  --numeric-suffixes --hex-suffixes --additional-suffix=dotted --elide-empty-files --verbose
  *any,write
unzip: -ltpqvZ1 needs:-l,-t,-p,-v,-Z,-Z1,-lq,-ql,-tq,-qt *any
zip: -rqvjy0123456789 -x= -i= --quiet --recurse-paths --exclude --junk-paths *write,any
gzip, gunzip, bzip2, bunzip2, xz, unxz, zstd: -cdfklqtv0123456789n --stdout --decompress
  --uncompress --force --keep --list --quiet --test --verbose --best --fast *write
patch: -NRp= -i=inside --dry-run --verbose needs:--dry-run *inside
tee: -aip --append --ignore-interrupts *write
touch: -acmf -d= -r= -t= --no-create --date --reference *write
mkdir: -pvm= --parents --verbose --mode *write
rmdir: -pv --parents --verbose --ignore-fail-on-non-empty *write
rm: -firRdvI --force --recursive --verbose --dir --interactive --one-file-system *write
unlink: *write
truncate: -cos= -r= --size --no-create --reference *write
chmod: -Rvcf --recursive --verbose --changes --silent --quiet --reference *write
cp: -abdfilLnpPrRuvxHT --archive --force --interactive --link --no-clobber --no-dereference
  --dereference --preserve --parents --recursive --update --verbose --no-target-directory
  --one-file-system --reflink --sparse --attributes-only *copy
mv: -finuvT --force --interactive --no-clobber --update --verbose --no-target-directory *write
ln: -sfnvrTiP --symbolic --force --no-dereference --verbose --relative --no-target-directory
  *write
install: -dvpDm= --mode --directory --verbose --preserve-timestamps *copy
dd: *dd
mktemp: -duqt --directory --dry-run --quiet *write
curl: -sSfLIivkg46#NZ -m= -H=plain -A= -w=curlformat -e=http -r= -b=text -u=text --silent
  --show-error --fail --fail-with-body --location --head --include --verbose --insecure --globoff
  --ipv4 --ipv6 --progress-bar --no-progress-meter --compressed --max-time= --connect-timeout=
  --retry= --retry-delay= --retry-connrefused --retry-all-errors --max-redirs= --header=plain
  --user-agent= --write-out=curlformat --http1.1 --http2 --no-buffer --range= --url=http
  -o=devnull --output=devnull -X=look --request=look --resolve= *http
wget: -qvScnN46 -T= -t= -O=write --quiet --verbose --no-verbose --server-response --spider
  --timeout= --tries= --user-agent= --header= --no-check-certificate --max-redirect=
  --output-document=write *download
ssh: -46aCnqTtvxN -p= -l= *host,none
scp, sftp, rsync, csplit, ftp, telnet, nc, ncat, socat, ldd, ld, gold, lld: --version
docker, podman, kubectl, helm: --version
docker ps, podman ps: -aqslnf= --all --quiet --size --latest --no-trunc --format --filter
docker images, podman images: -aqf= --all --quiet --no-trunc --format --filter --digests *
docker logs, podman logs: -ftn= --follow --timestamps --tail --since --until --details *
docker version, docker info, podman version, podman info: -f= --format
docker inspect, podman inspect: -sf= --format --size --type *
docker compose ps: -aq --all --quiet --format --services --status --filter *
docker compose logs: -ftn= --follow --timestamps --tail --since --until --no-color *
kubectl get, kubectl describe: -Awn= -o=name -l= --all-namespaces --namespace --output=name
  --selector --watch --show-labels --field-selector --sort-by --no-headers *
kubectl logs: -fpn= -c= --follow --previous --container --namespace --tail --since --timestamps
  --all-containers -l= --selector *
kubectl version: --client
gh: --version
gh pr view, gh pr status, gh pr list, gh pr checks, gh pr diff, gh issue view, gh issue list, gh
  issue status, gh run list, gh run view, gh repo view, gh release list, gh release view, gh
  workflow list, gh workflow view, gh label list, gh search issues, gh search prs: -cR= -L= -s=
  -l= -A= -a= -H= -B= -S= --comments --json --jq --template --state --limit --label --author
  --assignee --head --base --search --repo --branch --workflow --status --log --log-failed --job
  --verbose --exit-status --patch --name-only --watch --required *
"""
"""Programs with `any` have no option that runs something or writes a file."""
