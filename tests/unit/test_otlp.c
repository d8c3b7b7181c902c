/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "profile/formats.h"
#include "profiles.pb-c.h"
#include "test.h"

static uint32_t frame(struct profile *p, const char *name, const char *module, enum profile_frame_kind kind,
                      uint32_t line)
{
    struct profile_frame f = {.name = profile_string(p, name),
                              .module = profile_string(p, module),
                              .line = line,
                              .kind = (uint8_t)kind};
    return profile_add_frame(p, &f);
}

static struct profile *example(void)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    p->start_ns = 1000;
    p->end_ns = 3000;
    p->period = 10;
    for (int i = 0; i < 2; i++) { /* one stack in two processes */
        uint32_t node = profile_child(p, 0, frame(p, i ? "shop (7)" : "shop (8)", "", FRAME_GROUP, 0));
        node = profile_child(p, node, frame(p, "thread io (9)", "", FRAME_GROUP, 0));
        node = profile_child(p, node, frame(p, "main", "shop", FRAME_NATIVE, 3));
        node = profile_child(p, node, frame(p, "inner", "lib.so", FRAME_NATIVE, 0));
        node = profile_child(p, node, frame(p, "do_sys_open", "", FRAME_KERNEL, 0));
        profile_count(p, node, 1, 10 + (uint64_t)i);
    }
    return p;
}

static const char *attribute_key(const Profiles__Dictionary *d, int32_t i)
{
    return d->string_table[d->attribute_table[i]->key_strindex];
}

static void means_the_same_to_another_decoder(void **state)
{
    struct profile *p = example();
    struct text text = {0};
    assert_int_equal(otlp_write(p, "a service", &text), 0);
    Profiles__Data *data = profiles__data__unpack(NULL, text.length, (const uint8_t *)text_get(&text));
    assert_non_null(data);
    const Profiles__Dictionary *d = data->dictionary;
    assert_int_equal(data->n_resource_profiles, 1);
    Profiles__KeyValue *name = data->resource_profiles[0]->resource->attributes[0];
    assert_string_equal(name->key, "service.name");
    assert_string_equal(name->value->string_value, "a service");
    Profiles__Profile *profile = data->resource_profiles[0]->scope_profiles[0]->profiles[0];
    assert_string_equal(d->string_table[0], "");
    assert_string_equal(d->string_table[profile->sample_type->type_strindex], "cpu");
    assert_string_equal(d->string_table[profile->sample_type->unit_strindex], "nanoseconds");
    assert_int_equal(profile->time_unix_nano, 1000);
    assert_int_equal(profile->duration_nano, 2000);
    assert_int_equal(profile->period, 10);
    assert_int_equal(profile->n_samples, 2);
    assert_int_equal(profile->samples[0]->stack_index, profile->samples[1]->stack_index);
    assert_int_equal(profile->samples[0]->values[0] + profile->samples[1]->values[0], 21);
    /* Every process and thread by its attributes. */
    uint64_t pids = 0;
    for (int s = 0; s < 2; s++) {
        int seen = 0;
        for (size_t i = 0; i < profile->samples[s]->n_attribute_indices; i++) {
            int32_t a = profile->samples[s]->attribute_indices[i];
            const char *key = attribute_key(d, a);
            if (strcmp(key, "process.pid") == 0)
                pids += (uint64_t)d->attribute_table[a]->value->int_value;
            seen += strcmp(key, "thread.name") == 0 &&
                    strcmp(d->attribute_table[a]->value->string_value, "io") == 0;
        }
        assert_int_equal(seen, 1);
    }
    assert_int_equal(pids, 15);
    const Profiles__Stack *stack = d->stack_table[profile->samples[0]->stack_index];
    static const char *const names[] = {"do_sys_open", "inner", "main"};
    static const char *const types[] = {"kernel", "native", "native"};
    assert_int_equal(stack->n_location_indices, 3);
    for (int i = 0; i < 3; i++) {
        const Profiles__Location *l = d->location_table[stack->location_indices[i]];
        const Profiles__Function *f = d->function_table[l->lines[0]->function_index];
        assert_string_equal(d->string_table[f->name_strindex], names[i]);
        assert_string_equal(attribute_key(d, l->attribute_indices[0]), "profile.frame.type");
        assert_string_equal(d->attribute_table[l->attribute_indices[0]]->value->string_value, types[i]);
    }
    const Profiles__Location *outer = d->location_table[stack->location_indices[2]];
    assert_int_equal(outer->lines[0]->line, 3);
    assert_string_equal(d->string_table[d->mapping_table[outer->mapping_index]->filename_strindex], "shop");
    /* Element 0 of each table is the empty one, and no string is there twice. */
    assert_int_equal(d->mapping_table[0]->filename_strindex, 0);
    assert_int_equal(d->location_table[0]->n_lines, 0);
    assert_int_equal(d->function_table[0]->name_strindex, 0);
    assert_int_equal(d->stack_table[0]->n_location_indices, 0);
    assert_int_equal(d->link_table[0]->trace_id.len, 16);
    assert_int_equal(d->attribute_table[0]->key_strindex, 0);
    for (size_t i = 0; i < d->n_string_table; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(d->string_table[i], d->string_table[k]);
    profiles__data__free_unpacked(data, NULL);
    text_done(&text);
    profile_free(p);
}

static void nothing_is_a_profile_too(void **state)
{
    struct profile *p = NULL;
    struct text text = {0};
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(otlp_write(p, "x", &text), 0);
    Profiles__Data *data = profiles__data__unpack(NULL, text.length, (const uint8_t *)text_get(&text));
    assert_non_null(data);
    assert_int_equal(data->resource_profiles[0]->scope_profiles[0]->profiles[0]->n_samples, 0);
    profiles__data__free_unpacked(data, NULL);
    text_done(&text);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_the_same_to_another_decoder),
                                       cmocka_unit_test(nothing_is_a_profile_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
