// Everything random of the benchmark: one seed gives the same scenarios, names, sizes and gaps again.
// SPDX-License-Identifier: Apache-2.0

const WORDS = ('amber anchor apple arrow aspen atlas badge barrel basket beacon birch bishop blanket border bottle bramble bridge bronze bucket ' +
    'cabin candle canyon carbon castle cedar cellar chapel cherry circle citrus clover cobalt comet copper coral cotton crater cricket crystal ' +
    'dahlia delta desert dollar dragon ember engine fabric falcon feather fennel fiddle filter flint forest fossil garden garnet ginger glacier ' +
    'granite gravel hammer harbor hazel helmet heron hollow indigo island ivory jacket jasmine jungle kernel kettle ladder lagoon lantern laurel ' +
    'lemon lentil linen lizard locket lotus magnet mango maple marble meadow mellow mirror mortar muffin mustard napkin needle nickel nutmeg olive ' +
    'onyx opal orchid otter oyster paddle pallet panda paper parcel pebble pepper pickle pigeon pillow piston planet plaza pocket pollen poplar ' +
    'potato prism pumpkin quartz quiver rabbit radish raven ribbon rocket rubble saddle saffron salmon sandal satin scarlet shadow silver sparrow ' +
    'spider spruce stable summit sunset tablet tartan temple thistle timber tomato topaz trellis tulip tunnel turnip turtle valley velvet violet ' +
    'walnut willow window winter wizard yellow zephyr zinnia').split(' ');

export class Chance {
    constructor(seed) {
        this.state = seed >>> 0 || 1;
        this.used = new Set();
        for (let i = 0; i < 8; i++) this.next();
    }

    // mulberry32: [0, 1)
    next() {
        let t = (this.state = (this.state + 0x6d2b79f5) >>> 0);
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    }

    between(low, high) {
        return low + (high - low) * this.next();
    }

    whole(low, high) {
        return Math.floor(this.between(low, high + 1));
    }

    pick(list) {
        return list[Math.floor(this.next() * list.length)];
    }

    // The time to the next of events that come at random, mean ms apart.
    gap(mean) {
        return -Math.log(1 - this.next()) * mean;
    }

    // A word that was not used before.
    word() {
        for (let tries = 0; ; tries++) {
            const word = this.pick(WORDS) + (tries > 50 ? this.whole(2, 99) : '');
            if (this.used.has(word)) continue;
            this.used.add(word);
            return word;
        }
    }

    // camelCase of two words.
    name() {
        const second = this.word();
        return this.word() + second[0].toUpperCase() + second.slice(1);
    }

    path() {
        return `/${this.word()}/${this.word()}`;
    }
}
