"""How each language does the same thing: the scripts of the tests that go through all languages."""
import dataclasses
import functools
import pathlib
import shutil
import subprocess

# The most that a value may have, and a little.
TOO_MUCH = (64 << 20) + 1
# So much more than a log keeps.
FLOOD = 3_000_000


@dataclasses.dataclass
class Dialect:
    """A language and its scripts; what it cannot do is `None`, and the table in docs/scripts.md says why."""
    name: str
    ending: str
    mark: str
    language: str = ""
    echo: str = None
    refuse: str = None
    throw: str = None
    transient: str = None
    die_once: str = None
    hang: str = None
    heed: str = None
    big: str = None
    bad: str = None
    flood: str = None
    defer: str = None
    hold: str = None

    def block(self, settings, text):
        """The text with these lines of settings in its `script` block."""
        lines = "".join(f"{self.mark} {line}\n" for line in ["/// script", *settings, "///"])
        return lines + text

    def create(self, home, name, text, settings=(), code=0, base="", **options):
        file = home.files / f"{name}.{self.ending}"
        text = text.replace("@BASE@", base)
        file.write_text(self.block(settings, text) if settings else text)
        return home.run("script", "create", "--name", name, "--language", self.language or self.name, "--file", file, code=code, **options)


PYTHON = Dialect(
    "python", "py", "#",
    echo="def main(value):\n    return value\n",
    refuse="import viat\ndef main():\n    raise viat.ViatError(status=409, code='taken', message='größe 雪', extra={'by': [1]})\n",
    throw="def main():\n    raise KeyError('größe 雪')\n",
    transient="import viat\ndef main():\n    raise viat.TransportError('later')\n",
    die_once="import os, viat\ndef main():\n    if viat.context.attempt == 1:\n        os.kill(os.getpid(), 9)\n    return 'back'\n",
    hang="import time\ndef main():\n    time.sleep(600)\n",
    heed="import viat\ndef main(file):\n    open(file, 'w').close()\n    viat.cancel_event.wait(600)\n    print('heard', viat.cancelled())\n",
    big="def main(size):\n    return 'y' * size\n",
    bad="def main():\n    return {'a': {1}}\n",
    flood="def main(size):\n    print('first')\n    print('x' * size)\n    print('last 雪')\n    return 'through'\n",
    defer="import viat\ndef main():\n    viat.defer('later', {'n': 1})\n",
    hold="import os, time\ndef main(file):\n    while not os.path.exists(file):\n        time.sleep(0.01)\n    return 'held'\n",
)

JAVASCRIPT = Dialect(
    "javascript", "js", "//",
    echo="export default async function main(args, viat) { return args.value; }\n",
    refuse="export default async function main(args, viat) { throw new ViatError({ status: 409, code: 'taken', message: 'größe 雪', extra: { by: [1] } }); }\n",
    throw="export default async function main(args, viat) { throw new RangeError('größe 雪'); }\n",
    transient="export default async function main(args, viat) { throw new TransportError('later'); }\n",
    die_once="export default async function main(args, viat) {\n  if (viat.context.attempt > 1) return 'back';\n  process.kill(process.pid, 'SIGKILL');\n  await new Promise(() => {});\n}\n",
    hang="export default async function main(args, viat) { for (;;); }\n",
    heed="import fs from 'node:fs';\nexport default async function main(args, viat) {\n  fs.writeFileSync(args.file, '');\n  await new Promise((done) => viat.signal.addEventListener('abort', done));\n  console.log('heard', viat.cancelled());\n}\n",
    big="export default async function main(args, viat) { return 'y'.repeat(args.size); }\n",
    bad="export default async function main(args, viat) { return { a: new Map() }; }\n",
    flood="export default async function main(args, viat) {\n  console.log('first');\n  console.log('x'.repeat(args.size));\n  console.error('last 雪');\n  return 'through';\n}\n",
    defer="export default async function main(args, viat) { await viat.defer('later', { n: 1 }); }\n",
    hold="import fs from 'node:fs';\nexport default async function main(args, viat) {\n  while (!fs.existsSync(args.file)) await new Promise((done) => setTimeout(done, 10));\n  return 'held';\n}\n",
)


def typed(text):
    """The same in TypeScript."""
    if not text:
        return text
    changed = text.replace("(args, viat) {", "(args: Record<string, any>, viat: any): Promise<unknown> {")
    assert changed != text
    return changed


TYPESCRIPT = Dialect("typescript", "ts", "//", "javascript", **{
    field.name: typed(getattr(JAVASCRIPT, field.name)) for field in dataclasses.fields(Dialect)[4:]})

SHELL = Dialect(
    "shell", "sh", "#",
    echo='printf "%s\\n" "$VIAT_ARG_VALUE"\n',
    refuse='echo \'{"code": "taken", "status": 409, "message": "größe 雪", "extra": {"by": [1]}}\' > "$VIAT_ERROR"\nexit 3\n',
    throw="echo 'größe 雪' >&2\nexit 3\n",
    transient="echo later > \"$VIAT_ERROR\"\nexit 75\n",
    die_once='[ "$VIAT_ATTEMPT" = 1 ] && kill -9 $$\necho back\n',
    hang="trap '' TERM\nwhile :; do sleep 600; done\n",
    heed="trap 'echo heard; exit 0' TERM\n: > \"$VIAT_ARG_FILE\"\nwhile :; do sleep 0.05; done\n",
    big="head -c \"$VIAT_ARG_SIZE\" /dev/zero | tr '\\0' y\n",
    bad="echo '{\"a\": }'\n",
    flood="echo first\nhead -c \"$VIAT_ARG_SIZE\" /dev/zero | tr '\\0' x\necho\necho 'last 雪'\necho through\n",
    defer='echo \'{"workflow": "later", "args": {"n": 1}}\' >> "$VIAT_DEFER"\n',
    hold='while [ ! -e "$VIAT_ARG_FILE" ]; do sleep 0.01; done\necho held\n',
)

HTTP = Dialect(
    "http", "http.yaml", "#",
    echo="method: POST\nurl: @BASE@/echo\nbody: $args.value\nheaders: {Content-Type: application/json}\n",
    throw="url: @BASE@/status/409\n",
    transient="url: @BASE@/status/503\ntransient_statuses: [503]\n",
    die_once="url: @BASE@/once\n",
    hang="url: @BASE@/hang\n",
    heed="url: @BASE@/hang\nheaders: {X-File: $args.file}\n",
    big="url: @BASE@/size/${args.size}\n",
    bad="url: @BASE@/broken\n",
    flood="url: @BASE@/size/${args.size}\n",
    hold="url: @BASE@/hang\nheaders: {X-File: $args.file}\n",
)

ALL = {each.name: each for each in (PYTHON, JAVASCRIPT, TYPESCRIPT, SHELL, HTTP)}


@functools.cache
def missing(name):
    """Why scripts in a language cannot be tried here; empty if they can."""
    if name in ("javascript", "typescript") and not shutil.which("node"):
        return "there is no node"
    if name == "typescript":
        own = subprocess.run(["node", "-p", "!!require('module').stripTypeScriptTypes"], capture_output=True, text=True)
        reach = ["npm", "view", "amaro@1.2.1", "version"]
        if own.stdout.strip() != "true" and (not shutil.which("npm") or subprocess.run(reach, capture_output=True, timeout=60).returncode):
            return "this Node takes no types away, and npm reaches no registry"
    return ""


def touched(remote, file):
    """Whether a script that heeds or holds has begun: it made its file, or asked."""
    return pathlib.Path(file).exists() or "/hang" in remote.asked
