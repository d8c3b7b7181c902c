/* What a report says when no version got slower: that it was looked at, why it cannot be told, or which
 * service differs from a normal period. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/diagnosis.h"

#define NAMES_SHOWN      12
#define UNTOLD_SHOWN     4
#define TIME_SPREAD_SAID 0.02 /* log, from which time is what makes a verdict hard */

/* The different services, or with one of them (a number) its versions; true when there are any. */
static bool list_seen(const struct book *book, uint32_t service, struct text *to)
{
    size_t shown = 0;
    for (size_t i = 0; i < book->service_versions.count; i++) {
        const struct service_version *v = &book->service_versions.at[i];
        bool repeated = service != NAMES_NONE && (v->service != service || !v->version);
        for (size_t k = 0; k < i && !repeated; k++)
            repeated = book->service_versions.at[k].service == v->service &&
                       (service == NAMES_NONE || book->service_versions.at[k].version == v->version);
        if (repeated || shown == NAMES_SHOWN)
            continue;
        text_addf(to, "%s%s", shown++ ? ", " : "",
                  names_get(book->names, service == NAMES_NONE ? v->service : v->version));
    }
    return shown > 0;
}

static bool was_seen(const struct book *book, uint32_t service, const char *version)
{
    uint32_t number = names_find(book->names, slice_of(version));
    array_foreach (&book->service_versions, v)
        if (number != NAMES_NONE && v->version == number && (service == NAMES_NONE || v->service == service))
            return true;
    return false;
}

/* Why nothing could be compared: a name that was asked for and is not there, or one version only. */
static void say_nothing_to_compare(const struct book *book, const struct judge_settings *settings,
                                   struct text *to)
{
    uint32_t service = settings->service ? names_find(book->names, slice_of(settings->service)) : NAMES_NONE;
    const char *whose = settings->service ? settings->service : "a service";
    bool known = !settings->service;
    array_foreach (&book->service_versions, v)
        known |= v->service == service;
    if (!known) {
        text_addf(to, "No span is of the service %s; there are: ", settings->service);
        list_seen(book, NAMES_NONE, to);
        text_add(to, ".");
        return;
    }
    const char *const wanted[] = {settings->base, settings->candidate};
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (wanted[i] && !was_seen(book, service, wanted[i])) {
            text_addf(to, "No span is of %s in version %s", whose, wanted[i]);
            struct text versions = {0};
            if (service != NAMES_NONE && list_seen(book, service, &versions))
                text_addf(to, "; there are: %s", text_get(&versions));
            text_done(&versions);
            text_add(to, ".");
            return;
        }
    text_addf(to,
              "%llu requests in %zu bucket%s, but %s was%s seen in two versions (service.version), so there "
              "is nothing to compare.",
              (unsigned long long)book->counts.requests, book_bucket_count(book),
              book_bucket_count(book) == 1 ? "" : "s", settings->service ? settings->service : "no service",
              settings->service ? " not" : "");
}

/* The first verdicts that cannot be told, and what each would take. */
static void say_untold(const struct book *book, const struct judgement *judgement, struct text *to)
{
    size_t shown = 0;
    array_foreach (&judgement->verdicts, v) {
        if (v->outcome != OUTCOME_CANNOT_TELL || v->of_callers || shown++ == UNTOLD_SHOWN)
            continue;
        if (shown > UNTOLD_SHOWN)
            break;
        text_add(to, shown == 1 ? " Undecided: " : "; ");
        book_bucket_words(book, &book->buckets.at[v->bucket], to);
        text_addf(to, " (%s %s", names_get(book->names, v->service), names_get(book->names, v->version));
        if (v->result.method != METHOD_NONE)
            text_addf(to, ", %.2f times, 95 %% interval %.2f to %.2f", v->result.ratio[MEASURE_MIDDLE],
                      v->result.low[MEASURE_MIDDLE], v->result.high[MEASURE_MIDDLE]);
        text_add(to, "), ");
        judge_wanted_words(v, to);
    }
    if (shown)
        text_add(to, ".");
}

static void say_mixes(const struct book *book, const struct judgement *judgement, struct text *to)
{
    array_foreach (&judgement->verdicts, v) {
        if (!v->mix_changed || v->of_callers || v->outcome == OUTCOME_SLOWER)
            continue;
        text_add(to, " The traffic mix of ");
        book_bucket_words(book, &book->buckets.at[v->bucket], to);
        text_add(to, " changed: ");
        judge_mix_words(book, v, to);
        text_addf(to, "; that alone makes %.2f times.", v->mix_ratio);
    }
}

void judge_wanted_words(const struct verdict *v, struct text *to)
{
    if (v->requests_wanted) {
        text_addf(to, "which would take %llu requests of either version%s (there are %llu and %llu",
                  (unsigned long long)v->requests_wanted, v->waiting ? " over the same time" : "",
                  (unsigned long long)v->newer.count, (unsigned long long)v->older.count);
        if (v->minutes_wanted > 0)
            text_addf(to, "; about %.0f minutes more", ceil(v->minutes_wanted));
        text_add(to, ")");
    } else if (v->order_guessed && !v->hosts_wanted) {
        text_add(to,
                 "and it is not known which version is the newer one: both run from the beginning, and their "
                 "names do not show it (--candidate VERSION says it)");
    } else if (v->later_ratio > 1) {
        text_addf(
            to,
            "since it was not slower while both versions ran, but %.2f times as slow later: only the older "
            "version beside it would show whether that is the version or the time",
            v->later_ratio);
    } else if (v->time_spread > TIME_SPREAD_SAID) {
        text_addf(to,
                  "which would take both versions over the same time: the older side's level moved by %.0f "
                  "%% by itself",
                  (exp(v->time_spread) - 1) * 100);
    } else {
        text_addf(to, "which would take about %llu hosts of either version (there are %zu and %zu)",
                  (unsigned long long)v->hosts_wanted, v->result.newer_hosts, v->result.older_hosts);
    }
}

void judge_mix_words(const struct book *book, const struct verdict *v, struct text *to)
{
    const struct label *label = &v->mix_label;
    if (label->key == NAMES_NONE)
        text_add(to, "requests with certain sub-operations");
    else
        text_addf(to, "requests with %s=%s", labels_key_name(book->labels, label->key),
                  labels_value_name(book->labels, label->key, label->value));
    text_addf(to, " are %.0f %% instead of %.0f %%", v->mix_share_newer * 100, v->mix_share_older * 100);
}

const char *diagnosis_say_nothing(const struct diagnosis *diagnosis, const struct judge_settings *settings,
                                  const struct judgement *judgement, struct report *report)
{
    const struct book *book = diagnosis_book(diagnosis);
    struct text words = {0};
    size_t compared = 0;
    array_foreach (&judgement->verdicts, v)
        compared += !v->of_callers;
    if (!book->counts.requests && !compared)
        text_addf(&words, "%llu spans were read, but no request with a root span among them.",
                  (unsigned long long)diagnosis_counts(diagnosis)->spans);
    else if (!compared)
        say_nothing_to_compare(book, settings, &words);
    else if (!judgement->untold)
        text_addf(&words, "%zu comparison%s of versions, none of them slower.", compared,
                  compared == 1 ? "" : "s");
    else
        text_addf(&words, "%zu comparison%s of versions: %zu not slower, %zu cannot be decided.", compared,
                  compared == 1 ? "" : "s", compared - judgement->untold, judgement->untold);
    if (judgement->untold)
        say_untold(book, judgement, &words);
    say_mixes(book, judgement, &words);
    const char *kept = arena_strdup(&report->arena, text_get(&words));
    text_done(&words);
    return kept;
}

int diagnosis_add_suspect(const struct suspect *suspect, struct report *report)
{
    double strength = locate_strength(suspect);
    if (strength < LOCATE_SURE)
        return 0;
    struct finding *f = report_add_finding(report, FINDING_suspect_service, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    f->where.service = suspect->service;
    f->title = finding_say(f, "%s explains best what differs from the normal period: %s", suspect->service,
                           suspect->why);
    f->detail = finding_say(f, "Score %.2f; the p95 of its operations is %.1f times as long at most.",
                            suspect->score, suspect->rule_total);
    f->remedy = finding_say(f, "Look at %s first: at its host, what it waits for, and what changed there.",
                            suspect->service);
    int r = finding_add_text(f, "service", suspect->service);
    r |= finding_add_real(f, "score", suspect->score);
    r |= finding_add_real(f, "ratio", exp(strength));
    r |= finding_add_text(f, "why", suspect->why);
    return r ? -ENOMEM : 0;
}
