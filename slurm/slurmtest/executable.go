package slurmtest

import (
	"os"
	"syscall"
	"testing"
)

// Executable writes a program that the test will start. No other test of this process forks meanwhile: its child would
// hold the file open for writing until it becomes another program, and the kernel refuses to start a file that is open
// for writing ("text file busy", https://go.dev/issue/22315).
func Executable(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
