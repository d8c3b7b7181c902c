/* Observing by the library alone, as an agent would: no part of the command line takes part. Real programs; a
 * test that may not trace them is skipped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/choose.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyze/folder.h"
#include "base/clock.h"
#include "observe/observe_internal.h"
#include "trace_sample.h"

/* A server that serves itself: each request keeps its event loop busy for a quarter second of CPU time, and a
 * line is printed when it has been answered. */
static const char SERVER[] =
    "const http = require('http');"
    "const server = http.createServer(function work(request, response) {"
    "  const before = process.cpuUsage(); while (process.cpuUsage(before).user < 250000);"
    "  response.end('done');"
    "}).listen(0, '127.0.0.1', ask);"
    "function ask() { http.get({ host: '127.0.0.1', port: server.address().port, path: '/work', agent: false "
    "},"
    "  (answer) => answer.resume().on('end', () => { console.log('answered'); setTimeout(ask, 10); })); }";

enum { ENOUGH = 5 }; /* requests answered while it is observed; the first began before */

static char probe[PATH_MAX];

static int find_probe(void **state)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int i = 0; i < 3; i++) /* BUILD/tests/unit/test_observe */
        *strrchr(self, '/') = '\0';
    snprintf(probe, sizeof(probe), "%.*s/libsonde-probe.so", (int)sizeof(probe) - 32, self);
    return 0;
}

struct agent {
    struct observation *observation;
    int lines; /* what the server prints */
    unsigned answered;
};

static void on_lines(void *context)
{
    struct agent *agent = context;
    char text[4096];
    ssize_t n = read(agent->lines, text, sizeof(text));
    for (ssize_t i = 0; i < n; i++)
        agent->answered += text[i] == '\n';
    if (agent->answered >= ENOUGH || n == 0)
        observe_stop(agent->observation);
}

static pid_t start_server(int *ret_lines)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("node", "node", "-e", SERVER, NULL);
        _exit(127);
    }
    close(ends[1]);
    *ret_lines = ends[0];
    return pid;
}

static void end_server(pid_t pid, int lines)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(lines);
}

/* What an agent wants of it: the titles of what was found, in order. */
static void take_findings(const char *folder, enum finding_kind kind, bool *ret_found)
{
    struct analyze_options analyze = ANALYZE_DEFAULTS;
    const struct folder_reading reading = {.analyze = &analyze};
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct problem problem = {0};
    struct report report = {0};
    assert_int_equal(folder_read(folder, &reading, &problem, &analysis, &report), 0);
    array_foreach (&report.findings, f)
        *ret_found |= (*f)->kind == kind;
    report_done(&report);
}

static void attaches_to_a_server_and_says_what_it_found(void **state)
{
    char *folder = sample_folder();
    struct agent agent = {0};
    pid_t server = start_server(&agent.lines);
    char c;
    assert_int_equal(read(agent.lines, &c, 1), 1); /* it serves */
    struct observe_options options = {
        .folder = folder, .probe = probe, .no_kernel = true, .audit = "/dev/null"};
    struct observe_summary summary = {0};
    struct problem problem = {0};
    struct chosen chosen = {0};
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    unsigned attached = 0;
    int r = proc_open(server, &proc);
    if (r >= 0)
        r = choose_process(&chosen, proc);
    if (r >= 0)
        r = observe_new(&options, &agent.observation, &problem);
    if (r >= 0)
        r = observe_also_wait(agent.observation, agent.lines, on_lines, &agent);
    if (r >= 0)
        r = observe_attach_all(agent.observation, &chosen, true, &attached, &problem);
    char before[4096]; /* what it printed until it was observed does not count, however long attaching took */
    struct pollfd waiting = {.fd = agent.lines, .events = POLLIN};
    while (poll(&waiting, 1, 0) == 1 && read(agent.lines, before, sizeof(before)) > 0)
        ;
    if (r >= 0)
        r = observe_run(agent.observation, &problem);
    if (r >= 0)
        r = observe_end(agent.observation, &summary, &problem);
    observe_free(agent.observation);
    chosen_done(&chosen);
    end_server(server, agent.lines);
    if (r == -EPERM || r == -EACCES) {
        print_message("may not trace: %s\n", problem.what);
        skip();
    }
    if (r < 0)
        fail_msg("%s", problem.what);
    assert_int_equal(attached, 1);
    assert_int_equal(summary.programs, 1);
    assert_true(summary.events > 0);
    bool found = false;
    take_findings(folder, FINDING_event_loop_blocked, &found);
    assert_true(found);
    sample_remove(folder);
}

/* ---- a command ---- */

struct told {
    char text[2000];
};

static int run_command(const char *shell, const struct observe_options *given, struct observation **ret_o)
{
    struct observe_options options = *given;
    struct problem problem = {0};
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)shell, NULL};
    options.probe = probe;
    options.no_kernel = true;
    options.audit = "/dev/null";
    int r = observe_new(&options, ret_o, &problem);
    if (r >= 0)
        r = observe_start(*ret_o, argv, &problem);
    if (r >= 0)
        r = observe_run(*ret_o, &problem);
    if (r < 0)
        fail_msg("%s", problem.what);
    return observe_status(*ret_o);
}

static void end_command(struct observation *o)
{
    struct observe_summary summary = {0};
    struct problem problem = {0};
    assert_int_equal(observe_end(o, &summary, &problem), 0);
    observe_free(o);
}

static void a_commands_end_is_told(void **state)
{
    char *folder = sample_folder();
    const struct observe_options options = {.folder = folder};
    struct observation *o = NULL;
    assert_int_equal(run_command("exit 7", &options, &o), 7);
    assert_int_equal(observe_command(o), 0);
    assert_string_equal(observe_folder(o), folder);
    end_command(o);
    sample_remove(folder);
    folder = sample_folder();
    const struct observe_options again = {.folder = folder};
    assert_int_equal(run_command("kill -9 $$", &again, &o), 128 + SIGKILL);
    end_command(o);
    sample_remove(folder);
}

/* In the process of its own: says that it was called, for which recording, and that its recorder is there. */
static int follow(void *context, const char *folder, int recorder)
{
    struct told *told = context;
    (void)recorder;
    return strcmp(told->text, "of the caller") == 0 && access(folder, F_OK) == 0 ? 42 : 1;
}

static void a_follower_has_a_process_of_its_own(void **state)
{
    char *folder = sample_folder();
    struct told told = {"of the caller"};
    const struct observe_options options = {.folder = folder, .follow = follow, .context = &told};
    struct observe_summary summary = {0};
    struct problem problem = {0};
    struct observation *o = NULL;
    assert_int_equal(run_command("true", &options, &o), 0);
    assert_int_equal(observe_end(o, &summary, &problem), 0);
    assert_int_equal(observe_wait(o), 42);
    assert_int_equal(observe_wait(o), -ECHILD);
    observe_free(o);
    sample_remove(folder);
}

/* ---- what is not understood ---- */

static void refuses(struct observe_options options, int error, const char *words)
{
    struct observation *o = NULL;
    struct problem problem = {0};
    options.probe = probe;
    options.audit = "/dev/null";
    assert_int_equal(observe_new(&options, &o, &problem), error);
    assert_null(o);
    if (!strstr(problem.what, words))
        fail_msg("'%s' does not say '%s'", problem.what, words);
}

static void options_that_are_not_understood(void **state)
{
    char *folder = sample_folder();
    refuses((struct observe_options){.folder = folder, .level = "much"}, -EINVAL, "much");
    refuses((struct observe_options){.folder = folder, .kernel = "tcp,ip"}, -EINVAL, "ip");
    refuses((struct observe_options){.folder = folder, .budget = "all"}, -EINVAL, "all");
    refuses((struct observe_options){.folder = folder, .request_context = "some"}, -EINVAL, "some");
    refuses((struct observe_options){.folder = folder, .user = "nobody-of-that-name"}, -EINVAL, "no user");
    refuses((struct observe_options){.folder = folder, .functions = "f", .request_context = "off"}, -EINVAL,
            "--function");
    sample_remove(folder);
}

static void who_is_chosen(void **state)
{
    struct chosen chosen = {0};
    _cleanup_(proc_unrefp) struct proc *self = NULL;
    assert_int_equal(proc_open(getpid(), &self), 0);
    assert_int_equal(choose_process(&chosen, self), 0);
    assert_int_equal(choose_process(&chosen, self), 0);
    assert_int_equal(chosen.count, 1);
    assert_int_equal(choose_named(&chosen, "no-program-has-this-name"), 0);
    assert_int_equal(choose_cgroup(&chosen, "/proc"), -1);
    chosen_done(&chosen);
    chosen_done(&chosen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attaches_to_a_server_and_says_what_it_found),
        cmocka_unit_test(a_commands_end_is_told),
        cmocka_unit_test(a_follower_has_a_process_of_its_own),
        cmocka_unit_test(options_that_are_not_understood),
        cmocka_unit_test(who_is_chosen),
    };
    return cmocka_run_group_tests(tests, find_probe, NULL);
}
