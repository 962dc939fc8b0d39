//! S31: a program is written, executed and written again before all is decided. No image of a process keeps it busy.

use super::right::late;
use super::{has, torture};
use crate::setting::Setting;

/// What it writes it executes, and what has run it writes anew.
const SCRIPT: &str = "for n in 1 2 3; do
    printf '#!/bin/sh\\nexit %s\\n' $n >script && chmod +x script && ./script
    echo script $?
    cp /bin/true program && ./program && cp /bin/false program || echo no copy
    ./program || echo program $?
done 2>&1";

const PYTHON: &str = "import os, subprocess
for number in range(3):
    script = os.open('script', os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o700)
    for line in ['#!/bin/sh', f'exit {number}']:
        os.stat('/')
        os.write(script, line.encode() + b'\\n')
    os.close(script)
    print(subprocess.call(['./script']))
";

#[test]
fn a_shell_executes_what_it_has_written_and_writes_what_it_has_executed() {
    let command = ["bash", "-c", SCRIPT];
    torture("programs", &command, |_| true);
    late(&command, |_| true);
}

#[test]
fn python_executes_what_it_has_written() {
    let prepare = |setting: &Setting| {
        setting.scratch.file("programs.py", PYTHON);
        has("python3")
    };
    let command = ["python3", "programs.py"];
    torture("python programs", &command, prepare);
    late(&command, prepare);
}
